"""Text in the columns of a terminal, where wide characters take two."""

_LONGEST_WORD = 15


def measure(text: str) -> int:
    """Return the number of columns of a text."""
    from rich.cells import cell_len  # only tables need it

    return cell_len(text)


def show(text: str) -> str:
    """Return a text as one line without characters that would control the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def pad(text: str, width: int) -> str:
    """Return the text with spaces up to a width."""
    return text + " " * max(0, width - measure(text))


def fit(text: str, width: int) -> str:
    """Return a text cut to a width around its [marked] word, or its beginning, between words if it has spaces."""
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
    """Return where the previous word starts; a long one, as in Chinese, is taken character by character."""
    start = text.rfind(" ", 0, max(0, at - 1)) + 1
    return start if at - start <= _LONGEST_WORD else at - 1


def _step_right(text: str, at: int) -> int:
    end = text.find(" ", at + 1)
    end = len(text) if end < 0 else end
    return end if end - at <= _LONGEST_WORD else at + 1
