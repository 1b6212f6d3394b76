"""A value -> its JSON on one line that any way of splitting lines keeps whole."""

import json
from typing import Any

# Some programs end a line at these too. JSON escapes the control characters by itself.
_LINE_SEPARATORS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


def to_json(value: Any) -> str:
    """Give the JSON of a value on one line, letters of all scripts as they are."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_SEPARATORS)
