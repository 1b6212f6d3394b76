"""Read word vectors in the text formats of GloVe and word2vec."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.files.sources import describe_file, open_stream, report_damage


@contextmanager
def open_word_vectors(path: Path) -> Iterator[BinaryIO]:
    """Open a text file of word vectors in binary mode, decompressed if its name ends in .gz, .xz, .bz2 or .zst."""
    source = describe_file(str(path), "txt")
    with open_stream(source) as (stream, _), report_damage(source):
        yield stream


def read_word_vectors(path: Path, words: Collection[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Return the vectors of `words` that the file contains.

    The number of dimensions comes from the first line, which is a word2vec header or the first vector. Words may
    contain spaces, as in some GloVe files.
    """
    wanted, dim = frozenset(words), 0
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    with open_word_vectors(path) as file:
        for line_number, line in enumerate(file, start=1):
            pieces = line.rstrip().split(b" ")
            is_header = line_number == 1 and len(pieces) == 2 and all(piece.isdigit() for piece in pieces)
            if line_number == 1:
                dim = max(1, int(pieces[1]) if is_header else len(pieces) - 1)
            if is_header:
                continue
            if len(pieces) <= dim:
                raise InputError(
                    f"{path}, line {line_number} has {len(pieces) - 1} values, but line 1 has {dim}; every line needs "
                    "a word and as many numbers."
                )
            word = b" ".join(pieces[:-dim]).decode("utf-8", "replace")
            if word in wanted:
                vectors[word] = _read_numbers(pieces[-dim:], path, line_number)
    if not vectors:
        raise InputError(f"{path} has no vector for any word in the vocabulary; is it a word vector file?")
    return vectors


def _read_numbers(pieces: list[bytes], path: Path, line_number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(pieces, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}, line {line_number} is not a word followed by numbers: {error}.") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}, line {line_number} contains NaN or infinite values.")
    return vector
