"""AllenNLP's ElmoEmbedder: lists of words, or a file of them, -> all layers of every sentence.

Vectors of a file go into the HDF5 file that AllenNLP's `elmo` command wrote, one dataset per sentence.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.source import BASE_ADDRESS, OFFICIAL
from elmo.compat.engine import check_batch_size, open_files, open_model
from elmo.errors import ConfigError, InputError
from elmo.files.durable import writing_aside
from elmo.text.sentence_input import read_word_lists

Array = npt.NDArray[np.float32]
OutputFormat = Literal["all", "top", "average"]

DEFAULT_OPTIONS_FILE = BASE_ADDRESS + OFFICIAL["original"].options_path
DEFAULT_WEIGHT_FILE = BASE_ADDRESS + OFFICIAL["original"].weights_path
DEFAULT_BATCH_SIZE = 64


class ElmoEmbedder:
    """All layers of sentences that are lists of words.

    `stateful=False` starts every sentence from a zero state, so that it gets the same vectors each time.
    """

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        stateful: bool = True,
    ) -> None:
        if not isinstance(cuda_device, int):
            raise ConfigError(f"cuda_device is {cuda_device!r}; give the number of a GPU, or -1 for none.")
        self.cuda_device = cuda_device
        device = "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"
        self._model = open_model(open_files(options_file, weight_file), stateful=stateful, device=device)
        self._stateful = stateful

    def reset_state(self) -> None:
        """Set the LSTM state to zero."""
        if self._stateful:
            self._model.reset_state()

    def embed_sentence(self, sentence: Sequence[str]) -> Array:
        """Return all layers of one sentence, (L+1, T, 2D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Array]:
        """Return all layers of each sentence, (L+1, T, 2D); of an empty one, (L+1, 0, 2D)."""
        sentences = read_word_lists(batch)
        if not any(sentences):
            # The original does not run its network here, so the state stays as it is.
            empty = np.zeros((self._model.num_layers, 0, self._model.dim), dtype=np.float32)
            return [empty.copy() for _ in sentences]
        arrays: list[Array] = self._model.embed(sentences, layers="all")
        return arrays

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Array]:
        """Yield all layers of each sentence; `batch_size` sentences are computed at a time."""
        check_batch_size(batch_size)
        remaining = iter(sentences)
        while batch := list(itertools.islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str] | str | Path,
        output_file_path: str | Path,
        output_format: OutputFormat = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a file with one sentence per line, words separated by spaces, to an HDF5 file.

        The input is an open text file, which is closed at the end, or the path of a UTF-8 file. Datasets are named
        by line number, "0", "1", ...; that of a blank line is empty. Unless `forget_sentences`, the dataset
        `sentence_to_index` holds a JSON object from sentence to name, the last one of equal sentences.
        `use_sentence_keys` names datasets by their sentences.
        """
        if output_format not in get_args(OutputFormat):
            raise InputError(f"output_format is {output_format!r}; choose 'all', 'top' or 'average'.")
        check_batch_size(batch_size)
        sentences = _read_lines(input_file)
        if not sentences:
            raise InputError("The input file has no lines; give a file with one sentence per line.")
        if use_sentence_keys:
            _check_sentence_keys(sentences)
        names = sentences if use_sentence_keys else [str(number) for number in range(len(sentences))]
        arrays = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        _write_sentences(
            Path(output_file_path),
            zip(names, (_choose(array, output_format) for array in arrays), strict=True),
            None if forget_sentences or use_sentence_keys else dict(zip(sentences, names, strict=True)),
        )
        if not isinstance(input_file, str | Path):
            input_file.close()


def _read_lines(file: IO[str] | str | Path) -> list[str]:
    if isinstance(file, str | Path):
        try:
            with Path(file).open(encoding="utf-8") as opened:
                return _read_lines(opened)
        except OSError as error:
            raise InputError(f"input_file is {str(file)!r}, which cannot be read: {error.strerror}.") from error
    if not isinstance(file, Iterable) or not hasattr(file, "close"):
        raise InputError(
            f"input_file is of type {type(file).__name__}; give an open text file or the path of one."
        )
    sentences: list[str] = []
    try:
        for line in file:
            if not isinstance(line, str):
                raise InputError(
                    f"Line {len(sentences)} of the input file is bytes; open the file as text: open(path, "
                    "encoding='utf-8')."
                )
            sentences.append(line.strip())
    except UnicodeDecodeError as error:
        # The error is somewhere in a block of lines that were decoded together.
        number = len(sentences) + error.object[: error.start].count(b"\n")
        raise InputError(
            f"Line {number} of the input file, counted from 0, has bytes that are not {error.encoding}: "
            f"{error.reason}."
        ) from error
    return sentences


def _choose(array: Array, output_format: OutputFormat) -> Array:
    if output_format == "all":
        return array
    chosen: Array = array[-1] if output_format == "top" else array.mean(axis=0)
    return chosen


def _write_sentences(
    path: Path,
    vectors: Iterable[tuple[str, Array]],
    sentence_to_index: Mapping[str, str] | None,
) -> None:
    """Write each array under its name, and the JSON index if there is one; a failure leaves no file."""
    import h5py

    try:
        with writing_aside(path) as aside, h5py.File(aside, "w") as file:
            for name, array in vectors:
                file.create_dataset(name, data=array, dtype="float32")
            if sentence_to_index is not None:
                index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps(sentence_to_index)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}.") from error


def _check_sentence_keys(sentences: Sequence[str]) -> None:
    """Raise InputError for sentences that cannot each name a dataset."""
    times = Counter(sentences)
    for number, sentence in enumerate(sentences):
        if sentence in ("", ".") or "/" in sentence or "\0" in sentence:
            fault = "which HDF5 does not allow as a name (no '/', and neither empty nor '.')"
        elif times[sentence] > 1:
            fault = f"which occurs {times[sentence]} times, so it cannot name one dataset"
        else:
            continue
        raise InputError(
            f"Line {number} is {sentence!r:.80}, {fault}; leave use_sentence_keys out to name datasets by number."
        )
