"""Lines of running text -> its sentences, paragraph by paragraph, so that a text of any size fits."""

from collections.abc import Iterable, Iterator

# A text without a blank line is cut, at a line's end, when this much of it was read.
CHARACTERS_AT_ONCE = 1_000_000


def split_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a text, each on one line; a blank line ends a sentence."""
    from elmo.text.sentences import split_sentences

    for paragraph in _join_paragraphs(lines):
        for sentence in split_sentences(paragraph):
            yield " ".join(sentence.split("\n"))


def _join_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    paragraph: list[str] = []
    num_characters = 0
    for line in lines:
        paragraph.append(line)
        num_characters += len(line)
        if not line.strip() or num_characters > CHARACTERS_AT_ONCE:
            yield "\n".join(paragraph)
            paragraph, num_characters = [], 0
    yield "\n".join(paragraph)
