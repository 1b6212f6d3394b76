"""Text files of word vectors, as of GloVe and word2vec: one word and its numbers per line."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError


def measure_word_vectors(path: Path) -> int:
    """Return the dimension of the vectors in a file, read from its first two lines."""
    try:
        with path.open("rb") as file:
            lines = [file.readline().rstrip().split(b" ") for _ in range(2)]
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error
    if len(lines[0]) == 2 and all(piece.isdigit() for piece in lines[0]):
        return int(lines[0][1])
    # A word may contain spaces, but hardly both of the first two.
    dim = min(len(pieces) - 1 for pieces in lines if pieces != [b""]) if lines[0] != [b""] else 0
    if dim < 1:
        raise InputError(
            f"{path} is not a text file of word vectors; a word and its numbers per line were expected."
        )
    return dim


def read_word_vectors(path: Path, words: Collection[str], dim: int) -> dict[str, npt.NDArray[np.float32]]:
    """Return the vectors of those `words` that the file contains; all vectors must have `dim` numbers.

    word2vec's first line, with two counts, is skipped. Words may contain spaces, as some of GloVe's do.
    """
    wanted = frozenset(words)
    found: dict[str, npt.NDArray[np.float32]] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                pieces = line.rstrip().split(b" ")
                if number == 1 and len(pieces) == 2 and all(piece.isdigit() for piece in pieces):
                    continue
                if len(pieces) <= dim:
                    raise InputError(
                        f"{path}, line {number} has {len(pieces) - 1} numbers, but the word embedding has {dim}; "
                        "give vectors of that length, or change the embedding's."
                    )
                word = b" ".join(pieces[:-dim]).decode("utf-8", "replace")
                if word in wanted:
                    found[word] = _read_numbers(pieces[-dim:], path, number)
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error
    if not found:
        raise InputError(
            f"{path} has no vector of {dim} numbers for any word of the vocabulary; is it a file of such vectors?"
        )
    return found


def _read_numbers(pieces: list[bytes], path: Path, number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(pieces, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}, line {number} is not a word and its numbers: {error}.") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}, line {number} has numbers that are not finite.")
    return vector
