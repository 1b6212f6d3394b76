"""Text files of any kind -> their sentences one by one, each with its place; and a word's occurrences in them.

The files are read as `elmo prepare` reads them: plain text, JSON lines or Parquet, compressed or not.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.analysis.occurrences import CorpusSentence, Occurrence, is_same_word
from elmo.corpus.settings import PrepareSettings, Split
from elmo.corpus.text import cut_parts, cut_sentences
from elmo.errors import InputError
from elmo.files.sources import STDIN, Source, find_sources
from elmo.text.tokenize import split_on_spaces, tokenize

_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class ReadingSettings:
    """How text becomes sentences and words."""

    split: Split = "sentences"
    language: str | None = None
    field: str = "text"
    split_on_spaces: bool = False

    def to_prepare(self) -> PrepareSettings:
        """Give the same for the reader of corpora, which checks them."""
        return PrepareSettings(
            field=self.field,
            split=self.split,
            language=self.language,
            split_on_spaces=self.split_on_spaces,
            shard_bytes=_PART_BYTES,
        )


def find_corpus(names: Sequence[str]) -> list[Source]:
    """Give the files that names and patterns mean; InputError if one is missing or cannot be read twice."""
    if STDIN in names:
        raise InputError("The corpus is -, standard input, which can be read only once; name a file.")
    return find_sources([str(name) for name in names], Path())


def count_bytes(sources: Sequence[Source]) -> int:
    """Give the size of the files, as `advance` of read_source counts it."""
    return sum(source.path.stat().st_size for source in sources)


def read_source(
    source: Source, settings: ReadingSettings, advance: Callable[[int], None] = lambda num_bytes: None
) -> Iterator[CorpusSentence]:
    """Give the sentences of a file that have words; `advance` is told the bytes as they are used up."""
    prepare = settings.to_prepare()
    cut = split_on_spaces if settings.split_on_spaces else tokenize
    number = 0
    for part in cut_parts([source], prepare, _PART_BYTES):
        told = 0
        for text, share in cut_sentences(part, prepare):
            words = cut(text)
            if words:
                offsets = tuple((word.start, word.end) for word in words)
                yield CorpusSentence(text, offsets, source.name, number)
                number += 1
            used = int(share * part.input_bytes)
            if used > told:
                advance(used - told)
                told = used
        advance(part.input_bytes - told)


def read_corpus(
    names: Sequence[str],
    settings: ReadingSettings | None = None,
    advance: Callable[[int], None] = lambda num_bytes: None,
) -> Iterator[CorpusSentence]:
    """Give the sentences of all files, in order."""
    for source in find_corpus(names):
        yield from read_source(source, settings or ReadingSettings(), advance)


def find_occurrences(
    sentences: Iterator[CorpusSentence], word: str, *, max_occurrences: int, seed: int = 0
) -> tuple[list[Occurrence], int]:
    """Give the occurrences of a word, at most so many drawn by the seed, in order; and how many there are."""
    kept: list[tuple[int, Occurrence]] = []
    count = 0
    draw = random.Random(seed)
    folded = word.casefold()
    for sentence in sentences:
        if folded not in sentence.text.casefold():
            continue
        for place, each in enumerate(sentence.words):
            if not is_same_word(each, word):
                continue
            occurrence = (count, Occurrence(sentence, place, place + 1))
            count += 1
            if len(kept) < max_occurrences:
                kept.append(occurrence)
            elif (slot := draw.randrange(count)) < max_occurrences:
                kept[slot] = occurrence
    return [occurrence for _, occurrence in sorted(kept, key=lambda each: each[0])], count
