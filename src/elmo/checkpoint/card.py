"""The model card, README.md: a description of the model, with license and language in the front matter."""

import re
from pathlib import Path
from typing import Literal

from elmo.checkpoint.location import read_file

_FRONT_MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)


def read_card(path: Path) -> str | None:
    """Return the model card; None if the file is missing or is not UTF-8 text."""
    try:
        return read_file(path).decode("utf-8") if path.is_file() else None
    except UnicodeDecodeError:
        return None


def derived_card(card: str | None, origin: str) -> str | None:
    """Return the card of a model derived by `origin`; it keeps the license and language, but no measurements."""
    front = _FRONT_MATTER.match(card or "")
    if card is None or front is None:
        return None
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    name = title[1].strip() if title else "another model"
    return (
        f"{front[0]}# From {name}\n\nMade from {name} by {origin}. The license of {name} applies to these weights; its "
        "measurements do not.\n"
    )


def card_field(card: str | None, name: Literal["language", "license"]) -> str | None:
    """Return a field from the front matter of a card; for a list, its first item."""
    front = _FRONT_MATTER.match(card or "")
    pattern = rf"^{name}:[ \t]*(?:\n[ \t]*-[ \t]*|\[)?['\"]?([^'\"\n,\]]+)"
    line = re.search(pattern, front[1], re.MULTILINE) if front else None
    return line[1].strip() if line else None
