"""Convert words to batches of word-piece ids for the Transformers of inference.py, with little padding."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer
from worker_loop import Sentences

Batch = dict[str, npt.NDArray[np.int64]]
MAX_PIECES = 512


class WordPieces:
    """The fast tokenizer of a model folder."""

    def __init__(self, folder: str, *, num_threads: int) -> None:
        os.environ["RAYON_NUM_THREADS"] = str(num_threads)
        self._tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_PIECES)

    def batches(self, sentences: Sentences, batch_size: int) -> Iterator[Batch]:
        """Yield the inputs of a BERT: single sentences in input order, or batches sorted by length."""
        if batch_size == 1:
            for words in sentences:
                yield _pad(self._tokenizer.encode_batch([words], is_pretokenized=True))
            return
        encodings = sorted(self._tokenizer.encode_batch(sentences, is_pretokenized=True), key=len)
        for start in range(0, len(encodings), batch_size):
            yield _pad(encodings[start : start + batch_size])

    def methods(self, run: Callable[[Batch], npt.NDArray[np.float32]]) -> dict[str, Callable[..., None]]:
        """Return the methods of a worker whose model returns the vectors of a batch."""

        def embed(sentences: Sentences, batch_size: int) -> None:
            for batch in self.batches(sentences, batch_size):
                run(batch)

        def save_layers(sentences: Sentences, path: str) -> None:
            np.savez(path, *map(run, self.batches(sentences, 1)))

        return {"embed": embed, "save_layers": save_layers}


def _pad(encodings: list[Encoding]) -> Batch:
    shape = len(encodings), max(map(len, encodings))
    ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)  # BERT's padding is 0
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding.ids
        mask[row, : len(encoding)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(shape, dtype=np.int64)}
