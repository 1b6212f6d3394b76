"""Text for a terminal: translated, safe to print, and cut, padded or wrapped by its display width."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from elmo.language import translate

_MOST_ITEMS = 20  # shown of a list
# A line may break after a space, a hyphen and each Chinese character, but not before closing punctuation.
_PIECES = re.compile(r"\s*[（《“【「]*(?:[⺀-鿿]|[^\s⺀-￯“”]+)?[，。；：、！？）》”】」…]*")


def say(text: str) -> None:
    """Print a text in the user's language."""
    print(translate(text))


def show(text: str) -> str:
    """Return untrusted text as one line, with control characters escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def measure(text: str) -> int:
    """Return the number of columns a text takes; wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def pad(text: str, width: int) -> str:
    """Add spaces up to a width."""
    return text + " " * max(0, width - measure(text))


def wrap(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, none of them wider than `width` unless one word is."""
    line = ""
    for piece in _PIECES.findall(text):
        if line and measure(line + piece) > width:
            yield line
            line = ""
        line = line + piece if line else piece.lstrip()
    if line:
        yield line


def align_facts(facts: Mapping[str, Any]) -> str:
    """Return one line per fact: its name, then its value, in two columns; facts within a fact are indented."""
    rows = list(_list_facts(facts, ""))
    width = max(measure(name) for name, _ in rows) + 2
    return "\n".join(show(f"{pad(name, width)}{text}".rstrip()) for name, text in rows)


def _list_facts(facts: Mapping[str, Any], indent: str) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        label = translate(name)
        if label == name and "." not in name:  # not the name of a file
            label = name.replace("_", " ")
        if isinstance(value, Mapping):
            yield indent + label, ""
            yield from _list_facts(value, f"{indent}  ")
        else:
            yield indent + label, _show_value(value)


def _show_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        items = ["{…}" if isinstance(item, Mapping) else _show_value(item) for item in value[:_MOST_ITEMS]]
        return ", ".join([*items, *(["…"] if len(value) > _MOST_ITEMS else [])]) or translate("none")
    if value is None or isinstance(value, bool):
        return translate({None: "none", True: "yes", False: "no"}[value])
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else translate(value)


def align_rows(cells: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield one line per row of cells; the columns are right-aligned."""
    rows = list(cells)
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(" " * (width - measure(cell)) + cell for cell, width in zip(row, widths, strict=True))


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown; the first row is the header."""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        yield f"| {' | '.join(map(pad, row, widths))} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def fit(text: str, width: int) -> str:
    """Cut a text to a width around its [marked] word, between words where it has spaces."""
    if measure(text) <= width:
        return text
    mark = (text.find("[") + text.find("]")) // 2
    left, right = max(0, mark - width), min(len(text), mark + width)
    while measure(text[left:right]) > width - 2:
        if mark - left > right - mark:
            left += 1
        else:
            right -= 1
    if left and " " in text[left : text.find("[")]:
        left = text.index(" ", left) + 1
    if right < len(text) and " " in text[text.find("]") + 1 : right]:
        right = text.rindex(" ", 0, right)
    return f"{'…' if left else ''}{text[left:right]}{'…' if right < len(text) else ''}"
