"""The options that the commands of analysis share."""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.errors import InputError
from elmo.progress import Advance, progress_bar

if TYPE_CHECKING:
    from elmo.analysis.corpus_index import CorpusIndex
    from elmo.analysis.corpus_part import Part
    from elmo.analysis.corpus_text import ReadingSettings
    from elmo.analysis.occurrences import Occurrence
    from elmo.model import Elmo


class Split(str, Enum):
    """What a sentence is."""

    sentences = "sentences"
    lines = "lines"
    none = "none"


Corpus = Annotated[
    list[str] | None,
    typer.Option(
        "--corpus",
        "-c",
        metavar="PATH",
        show_default=False,
        help="An index, or text files (.txt, .jsonl, .parquet, also .gz, .xz, .zst); repeatable.",
    ),
]
Layer = Annotated[
    list[str] | None,
    typer.Option(
        "--layers",
        metavar="LAYER",
        show_default=False,
        help="A layer's number, top, average, or meaning; repeatable. Without it, meaning, or all above 0 for a "
        "model without a context layer.",
    ),
]
OneLayer = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="LAYER",
        show_default="meaning, or top without a context layer",
        help="A layer's number, top, average, or meaning.",
    ),
]
SourcePatterns = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="PATTERN",
        show_default=False,
        help="Only files of the corpus whose name fits, as in 'books*'; repeatable.",
    ),
]
SentenceRange = Annotated[
    str | None,
    typer.Option("--sentences", metavar="FIRST:LAST", help="Only these sentences of each file, from 0."),
]
SplitChoice = Annotated[
    Split,
    typer.Option("--split", help="What a sentence is: found in the lines, each line, or each document (none)."),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language", metavar="CODE", help="Language whose rules find sentences: en, de, …", show_default="en"
    ),
]
Field = Annotated[str, typer.Option("--column", metavar="NAME", help="Column or JSON field of the text.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]


def make_reading(split: Split, language: str | None, field: str, split_on_spaces: bool) -> "ReadingSettings":
    """Give how texts are read."""
    from elmo.analysis.corpus_text import ReadingSettings

    return ReadingSettings(split.value, language, field, split_on_spaces)


def make_part(sources: list[str] | None, sentences: str | None) -> "Part":
    """Give the part of the corpus that is asked for."""
    from elmo.analysis.corpus_part import Part, read_range

    first, last = read_range(sentences)
    return Part(tuple(sources or ()), first, last)


def open_corpus(names: list[str] | None, reading: "ReadingSettings") -> "CorpusIndex | list[str]":
    """Give the index, or the names of text files; an index has been read already, in its own way."""
    from elmo.analysis.corpus_index import CorpusIndex
    from elmo.analysis.corpus_text import find_corpus
    from elmo.analysis.index_manifest import is_index

    if not names:
        raise InputError("There is no corpus; name an index or text files with --corpus.")
    indexes = [name for name in names if is_index(name)]
    if not indexes:
        find_corpus(names)  # a missing file is told before a model is opened
        return names
    if len(names) > 1:
        raise InputError(
            f"{indexes[0]} is an index, so it must be the only --corpus; add files to it with "
            f"elmo neighbors --build {indexes[0]} --corpus FILE."
        )
    if reading != type(reading)():
        raise InputError(
            f"{indexes[0]} is an index, whose text was read when it was built; leave out --split, --language, "
            "--column and --split-on-spaces."
        )
    return CorpusIndex(indexes[0])


def open_model_of(
    corpus: "CorpusIndex | list[str]", name: str | None, *, format: str | None, device: str, local_files_only: bool
) -> "Elmo":
    """Open the model asked for; without a name, the one an index was made with. An index needs its own."""
    from elmo.analysis.corpus_index import CorpusIndex
    from elmo.checkpoint.fingerprint import context_fingerprint as context_hash
    from elmo.checkpoint.fingerprint import fingerprint as content_hash
    from elmo.cli.opening import open_model

    if isinstance(corpus, CorpusIndex) and name is None:
        name = corpus.manifest.model
    model = open_model(name, format=format, device=device, local_files_only=local_files_only)
    if isinstance(corpus, CorpusIndex) and not corpus.is_of(content_hash(model), context_hash(model)):
        made_with = corpus.manifest.model or "the default model of another version"
        raise InputError(f"{corpus.folder} was made with another model, {made_with}; name it with --model.")
    return model


def find_word(
    corpus: "CorpusIndex | list[str]",
    word: str,
    part: "Part",
    reading: "ReadingSettings",
    max_occurrences: int,
    seed: int,
) -> "tuple[list[Occurrence], int]":
    """Give the occurrences of a word, at most so many drawn by the seed, and how many there are."""
    from elmo.analysis.corpus_index import CorpusIndex
    from elmo.analysis.corpus_text import count_bytes, find_corpus, find_occurrences, read_corpus

    if isinstance(corpus, CorpusIndex):
        found, count = corpus.find_occurrences(word, max_occurrences=max_occurrences, part=part, seed=seed)
    else:
        num_bytes = count_bytes(find_corpus(corpus))
        with progress_bar(unit="steps", num_bytes=num_bytes, prints=False) as advance:
            sentences = (each for each in read_corpus(corpus, reading, lambda size: advance(size)) if each in part)
            found, count = find_occurrences(sentences, word, max_occurrences=max_occurrences, seed=seed)
    if not count:
        raise InputError(f"{word!r} does not occur in the corpus; choose another word, or more text.")
    return found, count


def count_sentences(advance: Advance) -> Callable[[int], None]:
    """Give what is told numbers of sentences, for a bar."""
    return lambda num_sentences: advance(0, num_sentences)
