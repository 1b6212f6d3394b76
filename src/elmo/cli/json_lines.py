"""Words and vectors -> one line of JSON each, in UTF-8, that any way of splitting lines keeps whole."""

from typing import TYPE_CHECKING

from elmo.one_line_json import to_json

if TYPE_CHECKING:
    from elmo.model import Array

__all__ = ["to_json", "vector_line", "vectors_to_json"]


def vectors_to_json(array: "Array") -> str:
    """Give the nested lists of an array, each number with the nine digits that tell one float32 from another."""
    if array.ndim > 1:
        return f"[{', '.join(vectors_to_json(part) for part in array)}]"
    return f"[{', '.join(map('{:.9g}'.format, array.tolist()))}]"


def vector_line(index: int, words: list[str], name: str, array: "Array") -> bytes:
    """Give the line of one sentence: its index, its words, and its vectors under `name`."""
    text = f'{{"index": {index}, "words": {to_json(words)}, "{name}": {vectors_to_json(array)}}}\n'
    return text.encode("utf-8")
