"""Sentences and their layers, one by one -> the files of a segment. Vectors wait on disk until it is full."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.analysis import index_segment as files
from elmo.analysis.cells import write_cells
from elmo.analysis.layer_choice import Array, LayerKey, normalize
from elmo.analysis.occurrences import CorpusSentence


class SegmentWriter:
    """A segment in the making, in a folder of its own."""

    def __init__(self, folder: Path, layers: Sequence[LayerKey]) -> None:
        self._folder, self._layers = folder, layers
        self._dims: dict[LayerKey, int] = {}
        folder.mkdir(parents=True)
        self._spools = {layer: (folder / f"layer-{layer}.spool").open("wb") for layer in layers}
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._offsets: list[tuple[int, int]] = []
        self._word_numbers: list[int] = []
        self._words: dict[str, int] = {}
        self._word_vectors: list[npt.NDArray[np.float16]] = []
        self._pieces: list[list[int]] = []  # source, number of its first sentence, how many
        self.num_occurrences = 0

    def add(self, sentence: CorpusSentence, source: int, vectors: Mapping[LayerKey, Array]) -> None:
        """Take a sentence and its vectors (T, dimensions) by each layer, those of layer 0 included."""
        if not self._pieces or self._pieces[-1][0] != source:
            self._pieces.append([source, sentence.number, 0])
        self._pieces[-1][2] += 1
        self._texts.append(sentence.text)
        self._starts.append(self.num_occurrences)
        self._offsets += sentence.offsets
        for place, word in enumerate(sentence.words):
            if word not in self._words:
                self._words[word] = len(self._words)
                self._word_vectors.append(normalize(vectors[0][place]).astype(np.float16))
            self._word_numbers.append(self._words[word])
        for layer, spool in self._spools.items():
            self._dims[layer] = vectors[layer].shape[1]
            spool.write(normalize(vectors[layer]).astype(np.float16).tobytes())
        self.num_occurrences += len(sentence.offsets)

    def close(self) -> None:
        """Let go of the files, as they are."""
        for spool in self._spools.values():
            spool.close()

    def finish(self) -> None:
        """Write everything that Segment reads."""
        self.close()
        folder = self._folder
        files.write_strings(self._texts, folder / files.TEXT, folder / files.TEXT_ENDS)
        np.save(folder / files.SENTENCE_STARTS, np.asarray(self._starts, dtype=np.int64))
        np.save(folder / files.OFFSETS, np.asarray(self._offsets, dtype=np.uint32).reshape(-1, 2))
        self._write_words()
        for layer in self._layers:
            path = folder / f"layer-{layer}.spool"
            spool = np.memmap(path, dtype=np.float16, mode="r").reshape(-1, self._dims[layer])
            self._write_layer(layer, spool)
            del spool
            path.unlink()
        (folder / files.DESCRIPTION).write_text(json.dumps({"sources": self._pieces}), encoding="utf-8")

    def _write_words(self) -> None:
        words = sorted(self._words, key=files.sort_key)
        files.write_strings(words, self._folder / files.WORDS, self._folder / files.WORD_ENDS)
        old_numbers = np.asarray([self._words[word] for word in words], dtype=np.int64)
        new_numbers = np.empty_like(old_numbers)
        new_numbers[old_numbers] = np.arange(len(words))
        numbers = new_numbers[np.asarray(self._word_numbers, dtype=np.int64)]
        np.save(self._folder / files.POSTINGS, np.argsort(numbers, kind="stable").astype(np.uint32))
        counts = np.bincount(numbers, minlength=len(words))
        np.save(self._folder / files.POSTING_ENDS, np.cumsum(counts, dtype=np.int64))
        self._write_layer(0, np.stack(self._word_vectors)[old_numbers])

    def _write_layer(self, layer: LayerKey, vectors: npt.NDArray[np.floating[Any]]) -> None:
        path = self._folder / files.layer_file(layer)
        write_cells(path, lambda start, end: vectors[start:end].astype(np.float32), len(vectors), vectors.shape[1])
