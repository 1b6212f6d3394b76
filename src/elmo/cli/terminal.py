"""Text for a terminal: safe to print, cut and padded by the columns it takes, facts aligned in two columns."""

from collections.abc import Mapping

_LONGEST_WORD = 15


def show(text: str) -> str:
    """Return text from a foreign file as one line without characters that would act on the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def measure(text: str) -> int:
    """Return the number of columns a text takes; wide characters take two, combining marks none."""
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int) -> str:
    """Add spaces up to a width."""
    return text + " " * max(0, width - measure(text))


def align_facts(facts: Mapping[str, str]) -> str:
    """Return one line per fact: its name, then its text, in two columns."""
    width = max(map(len, facts)) + 2
    return "\n".join(show(f"{name:<{width}}{text}") for name, text in facts.items())


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
