"""Files of words with their senses -> occurrences with labels, by word.

Two kinds: the XML of the word-sense evaluation framework with its keys beside it, and lines of a label, a tab and
a sentence with the [word] in brackets.
"""

from collections.abc import Iterator
from pathlib import Path

from elmo.analysis.occurrences import Occurrence, join_words
from elmo.errors import InputError
from elmo.files.sources import Lines
from elmo.tasks.examples import entry_of
from elmo.tasks.readers import open_reader
from elmo.tasks.settings import ReadSettings
from elmo.text.marks import read_marked
from elmo.text.tokenize import tokenize


def read_labelled(path: str | Path, word: str | None = None) -> dict[str, list[Occurrence]]:
    """Give the labelled occurrences of each word, or of one; the XML names words as in "bank#NOUN".

    A `word` without a part of speech stands for all of them.
    """
    lines = Lines(path)
    found: dict[str, list[Occurrence]] = {}
    for name, occurrence in _read_keys(str(path)) if lines.suffix == ".xml" else _read_lines(lines):
        if word is None or word.casefold() in (name.casefold(), name.split("#")[0].casefold()):
            found.setdefault(name if word is None else word, []).append(occurrence)
    if not found:
        missing = "no labelled words" if word is None else f"no labelled occurrence of {word!r}"
        raise InputError(f"{path} has {missing}; choose another word or file.")
    return found


def _read_keys(path: str) -> Iterator[tuple[str, Occurrence]]:
    for number, example in enumerate(open_reader(path, "senses", ReadSettings()).reader):
        sentence = join_words(example.words, path, number)
        for target in example.targets:
            start, end = target.span
            yield entry_of(target), Occurrence(sentence, start, end, target.keys[0])


def _read_lines(lines: Lines) -> Iterator[tuple[str, Occurrence]]:
    for line in lines:
        if not line.strip():
            continue
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise lines.fail(f"{line!r:.60} is not a label, a tab, and a sentence with the [word] in brackets.")
        try:
            words, (start, end) = read_marked(text, tokenize)
        except InputError as error:
            raise lines.fail(str(error)) from error
        occurrence = Occurrence(join_words(words, lines.name, lines.number - 1), start, end, label.strip())
        yield occurrence.word.casefold(), occurrence
