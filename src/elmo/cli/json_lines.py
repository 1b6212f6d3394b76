"""Words and vectors -> one line of JSON each, in UTF-8, that any way of splitting lines keeps whole."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo.model import Array

# Some programs end a line at these too. JSON escapes the control characters by itself.
_LINE_SEPARATORS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


def to_json(value: Any) -> str:
    """Give the JSON of a value on one line, letters of all scripts as they are."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_SEPARATORS)


def vectors_to_json(array: "Array") -> str:
    """Give the nested lists of an array, each number with the nine digits that tell one float32 from another."""
    if array.ndim > 1:
        return f"[{', '.join(vectors_to_json(part) for part in array)}]"
    return f"[{', '.join(map('{:.9g}'.format, array.tolist()))}]"


def vector_line(index: int, words: list[str], name: str, array: "Array") -> bytes:
    """Give the line of one sentence: its index, its words, and its vectors under `name`."""
    text = f'{{"index": {index}, "words": {to_json(words)}, "{name}": {vectors_to_json(array)}}}\n'
    return text.encode("utf-8")
