"""How many columns of a terminal a text takes: wide characters take two, marks above letters none."""

import unicodedata

_LONGEST_WORD = 15


def measure(text: str) -> int:
    """Give the columns of a text."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def show(text: str) -> str:
    """Return a text of a foreign file as one line without characters that would act on the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def pad(text: str, width: int) -> str:
    """Add spaces up to a width."""
    return text + " " * max(0, width - measure(text))


def fit(text: str, width: int) -> str:
    """Cut a text to a width around its [marked] word, or from its begin, between words where it has spaces."""
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
    """Give where the word before starts; a long one, as in writing without spaces, is taken by characters."""
    start = text.rfind(" ", 0, max(0, at - 1)) + 1
    return start if at - start <= _LONGEST_WORD else at - 1


def _step_right(text: str, at: int) -> int:
    end = text.find(" ", at + 1)
    end = len(text) if end < 0 else end
    return end if end - at <= _LONGEST_WORD else at + 1
