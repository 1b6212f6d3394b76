"""Options that `elmo neighbors`, `senses`, `probe` and `plot` share: a corpus, a model, a layer.

A command takes a group of options as one parameter, `corpus: CorpusOptions`; `expand_options` turns its fields
into the options of the command.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmo.cli import options
from elmo.cli.options import open_model
from elmo.errors import InputError
from elmo.files.sources import check_text

if TYPE_CHECKING:
    from elmo.analysis.index import CorpusIndex
    from elmo.analysis.occurrences import CorpusFilter, Occurrences, TextSettings
    from elmo.model import Elmo

Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--layers",
        metavar="LAYER",
        show_default="meaning, or all above 0 without a context layer",
        help="Layer to compare by: a number, top, average or meaning; repeatable.",
    ),
]
OneLayer = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="LAYER",
        show_default="meaning, or top without a context layer",
        help="Layer to compare by: a number, top, average or meaning.",
    ),
]
Labelled = Annotated[
    str | None,
    typer.Option(
        "--labelled",
        metavar="FILE",
        help="Labelled occurrences instead of a corpus: X.data.xml with X.gold.key.txt beside it, or lines of "
        "label, tab, and sentence with the [word].",
    ),
]
MaxOccurrences = Annotated[
    int, typer.Option(help="Maximum number of occurrences; more frequent words are sampled.", min=1)
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]


@dataclass(frozen=True)
class ModelOptions:
    """Which model to open."""

    model: options.ModelName = None
    format: options.ModelFormat = None
    device: options.Device = "cpu"
    local_files_only: options.LocalFilesOnly = False

    def open(self, corpus: "CorpusIndex | list[str] | None" = None) -> "Elmo":
        """Open the model; without a name the one that an index was built with. An index needs its own model."""
        index = None if corpus is None or isinstance(corpus, list) else corpus
        name = index.manifest.model if index is not None and self.model is None else self.model
        model = open_model(name, format=self.format, device=self.device, local_files_only=self.local_files_only)
        if index is not None:
            index.check_model(model)
        return model


@dataclass(frozen=True)
class CorpusOptions:
    """Which text to read, and how."""

    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            "-c",
            metavar="PATH",
            show_default=False,
            help="An index, or text files (.txt, .jsonl, .parquet, also .gz, .xz, .zst); repeatable.",
        ),
    ] = None
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="PATTERN",
            show_default=False,
            help="Use only files of the corpus whose name matches, as in 'books*'; repeatable.",
        ),
    ] = None
    sentences: Annotated[
        str | None,
        typer.Option("--sentences", metavar="FIRST:LAST", help="Use only these sentences of each file, from 0."),
    ] = None
    split: Annotated[
        Literal["sentences", "lines", "none"],
        typer.Option("--split", help="What a sentence is: detected in the lines, each line, or each document."),
    ] = "sentences"
    language: Annotated[
        str | None,
        typer.Option(
            "--language", metavar="CODE", show_default="en", help="Language of the sentence detection: en, de, …"
        ),
    ] = None
    field: Annotated[
        str, typer.Option("--column", metavar="NAME", help="Column or JSON field that has the text.")
    ] = "text"
    split_on_spaces: options.SplitOnSpaces = False

    @property
    def reading(self) -> "TextSettings":
        """How text files are read."""
        from elmo.analysis.occurrences import TextSettings

        return TextSettings(self.field, self.split, self.language, self.split_on_spaces)

    @property
    def filter(self) -> "CorpusFilter":
        """The part of the corpus to use."""
        from elmo.analysis.occurrences import CorpusFilter

        first, colon, last = ("0" if self.sentences is None else self.sentences).partition(":")
        try:
            if not colon and self.sentences is not None:
                raise ValueError
            return CorpusFilter(tuple(self.source or ()), int(first or 0), int(last) if last else None)
        except ValueError:
            raise InputError(f"--sentences is {self.sentences!r}; give FIRST:LAST, as in 0:1000.") from None

    def open(self) -> "CorpusIndex | list[str]":
        """Open the index, or return the names of text files after checking that they exist."""
        from elmo.analysis.index import CorpusIndex, is_index
        from elmo.analysis.occurrences import TextSettings, find_corpus

        if not self.corpus:
            raise InputError("There is no corpus; name an index or text files with --corpus.")
        indexes = [name for name in self.corpus if is_index(name)]
        if not indexes:
            find_corpus(self.corpus)
            return self.corpus
        if len(self.corpus) > 1:
            raise InputError(
                f"{indexes[0]} is an index, so it must be the only --corpus; add files to it with "
                f"elmo neighbors --build {indexes[0]} --corpus FILE."
            )
        if self.reading != TextSettings():
            raise InputError(
                f"{indexes[0]} is an index, whose text was read when it was built; leave out --split, --language, "
                "--column and --split-on-spaces."
            )
        return CorpusIndex(indexes[0])

    def find(
        self, word: str, labelled: str | None, model: ModelOptions, max_occurrences: int, seed: int
    ) -> "tuple[Occurrences, Elmo]":
        """Find the occurrences of a word in the corpus or in a labelled file, and open the model."""
        from elmo.analysis import find_labelled, find_occurrences
        from elmo.analysis.layers import settings_for

        check_text(word, "The word")
        if labelled is not None:
            if self.corpus or self.source or self.sentences:
                raise InputError("--labelled replaces --corpus, --source and --sentences; leave them out.")
            return find_labelled(labelled, word, max_occurrences=max_occurrences, seed=seed), model.open()
        corpus = self.open()
        opened = model.open(corpus)
        found = find_occurrences(
            corpus, word, corpus_filter=self.filter, reading=settings_for(opened, self.reading),
            max_occurrences=max_occurrences, seed=seed, progress=True,
        )  # fmt: skip
        return found, opened


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are groups of options (dataclasses) are replaced by their fields."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        if isinstance(parameter.annotation, type) and dataclasses.is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += (
                inspect.Parameter(field.name, parameter.kind, default=field.default, annotation=field.type)
                for field in dataclasses.fields(parameter.annotation)
            )
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        chosen = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**given, **chosen)

    del call.__wrapped__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call
