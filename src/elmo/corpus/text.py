"""Split files of running text into parts of about equal size, into sentences and into words.

The same files give the same parts in every run. A part ends at the end of a line or row, or, with split="none", at the
end of a document.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo.corpus.rows import Columns, Part, Row, cut_rows, split_paragraphs
from elmo.corpus.settings import SHARD_BYTES, Split, TextSettings
from elmo.files.sources import Source, find_sources
from elmo.text.units import Tokenization


def cut_parts(sources: Sequence[Source], settings: TextSettings, part_bytes: int = SHARD_BYTES) -> Iterator[Part]:
    """Read all sources in order and yield their parts; raise InputError for a broken line or row."""
    split: Split = "none" if settings.split == "none" else "lines"
    return cut_rows(sources, Columns(settings.field, split=split), part_bytes)


def read_sentences(names: Sequence[str], settings: TextSettings, *, stdin_copy: Path) -> Iterator[list[str]]:
    """Yield the words of every sentence of the files, without preparing a corpus; empty sentences are left out."""
    for part in cut_parts(find_sources(names, stdin_copy), settings):
        yield from cut_words(part, settings)


def cut_words(part: Part, settings: TextSettings) -> Iterator[list[str]]:
    """Yield the words of every sentence of a part; empty sentences are left out."""
    tokenize = Tokenization(settings.tokenization)
    for sentence in cut_sentences(part, settings):
        if not sentence.isspace() and (words := [word for word, _, _ in tokenize(sentence)]):
            yield words


def cut_sentences(part: Part, settings: TextSettings) -> Iterator[str]:
    """Yield the sentences of a part."""
    for row in part.rows:
        assert isinstance(row, Row)  # cut_parts raises an error for broken rows
        text = text_of(row)
        if settings.split == "none":
            yield text.replace("\n", " ")
        elif settings.split == "lines":
            yield from text.split("\n")
        else:
            yield from split_paragraphs(text, settings.language)


def text_of(row: Row) -> str:
    """Return the text of a row, or its words joined by spaces."""
    text = row.content if isinstance(row.content, str) else " ".join(row.content)
    return text.replace("\r\n", "\n")
