"""Text for a terminal: in the user's language, safe to print, cut, padded and wrapped by the columns it takes."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from elmo.language import translate

_LONGEST_WORD = 15
# A line may break after a space, a hyphen and each Chinese character, but not before closing punctuation.
_PIECES = re.compile(r"\s*[（《“【「]*(?:[⺀-鿿]|[^\s⺀-￯“”]+)?[，。；：、！？）》”】」…]*")


def say(text: str) -> None:
    """Print a text in the user's language."""
    print(translate(text))


def show(text: str) -> str:
    """Return text from a foreign file as one line without characters that would act on the terminal."""
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


def align_facts(facts: Mapping[str, str]) -> str:
    """Return one line per fact: its name, then its text, in two columns."""
    named = [(translate(name), translate(text)) for name, text in facts.items()]
    width = max(measure(name) for name, _ in named) + 2
    return "\n".join(show(f"{pad(name, width)}{text}") for name, text in named)


def align_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield one line per row; the columns are aligned at their right."""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(" " * (width - measure(cell)) + cell for cell, width in zip(row, widths, strict=True))


def markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown; the first row is its head."""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        yield f"| {' | '.join(map(pad, row, widths))} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def fit(text: str, width: int) -> str:
    """Cut a text to a width around its [marked] word, or from its start, between words where it has spaces."""
    if measure(text) <= width:
        return text
    left = max(0, text.find("["))
    right = text.find("]", left) + 1 or left
    is_growing = True
    while is_growing:
        is_growing = False
        if (start := _step_left(text, left)) < left and measure(text[start:right]) <= width - 2:
            left, is_growing = start, True
        if (end := _step_right(text, right)) > right and measure(text[left:end]) <= width - 2:
            right, is_growing = end, True
    return f"{'…' if left else ''}{text[left:right]}{'…' if right < len(text) else ''}"


def _step_left(text: str, at: int) -> int:
    """Return the start of the word before; long ones, as in writing without spaces, are cut by characters."""
    start = text.rfind(" ", 0, max(0, at - 1)) + 1
    return start if at - start <= _LONGEST_WORD else at - 1


def _step_right(text: str, at: int) -> int:
    end = text.find(" ", at + 1)
    end = len(text) if end < 0 else end
    return end if end - at <= _LONGEST_WORD else at + 1
