"""The options that several commands share, declared once, and what they mean: layers, a corpus, an open model.

A command takes a group of options as one parameter, `corpus: CorpusOptions`; `expand_options` turns the fields of
the group into options of the command.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import typer

from elmo.errors import InputError
from elmo.files.sources import check_text

if TYPE_CHECKING:
    from elmo.analysis.index import CorpusIndex
    from elmo.analysis.occurrences import CorpusFilter, Occurrences, TextSettings
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.open import Format
    from elmo.inference.layers import Layers as LayerValue
    from elmo.model import Elmo

NAMED_LAYERS = ("average", "top", "all", "concat", "meaning")
ONE_VECTOR_LAYERS = tuple(name for name in NAMED_LAYERS if name != "all")
State: TypeAlias = Literal["zero", "carry"]
StoredAs: TypeAlias = Literal["float32", "float16", "compact"]


def option(spec: str, help: str, default: Any = ..., *, shown: str | bool = True, min: int | None = None) -> Any:
    """Declare an option; `spec` has its flags and the name of its value, as in "--output -o FILE".

    Without flags, the parameter's name is the flag. Without a default, the option is required, or its default
    follows Annotated[…]. `shown` replaces the default on the help page.
    """
    names = spec.split()
    flags = [name for name in names if name.startswith("-")]
    metavar = names[-1] if len(names) > len(flags) else None
    return typer.Option(default, *flags, metavar=metavar, help=help, show_default=shown, min=min)


def argument(spec: str, help: str, default: Any = ..., *, shown: bool = True) -> Any:
    """Declare an argument; `spec` is its name on the help page."""
    return typer.Argument(default, metavar=spec, help=help, show_default=shown)


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


Rows = Annotated[
    list[str] | None,
    argument(
        "INPUT",
        "Files: .txt (one sentence per line), .jsonl, .csv, .tsv, .parquet or .conllu, compressed (.gz, .xz, "
        ".zst) or not; patterns such as 'texts/*.txt'; - is standard input.",
        shown=False,
    ),
]
Column = Annotated[
    str | None,
    option(
        "--column NAME",
        "Column or JSON field that holds the text, or a list of words.",
        shown="text, sentence, tokens or words",
    ),
]
Texts = Annotated[
    list[str] | None,
    option("--text SENTENCE", "A sentence to read after those of the files; repeatable.", shown=False),
]
MODEL_HELP = "A folder, an .hdf5 or .zip file, an alias such as 'small', or a hub id."
ModelName = Annotated[str | None, option("--model -m MODEL", f"{MODEL_HELP[:-1]}; without it, the default model.")]
ModelArgument = Annotated[str, argument("MODEL", MODEL_HELP)]
ModelFormat = Annotated[
    str | None,
    option(
        "--model-format FORMAT",
        "Format of the model's files if it cannot be detected: elmo, manylangs, hdf5, tensorflow or zip.",
    ),
]
MarkedSentence = Annotated[str, argument("SENTENCE", "A sentence with one [marked] word.", shown=False)]
WordIndex = Annotated[int | None, option("--word-index N", "Index of the word, from 0, instead of brackets.")]
TextFiles = Annotated[list[str], argument("TEXT", "Text files in UTF-8; - is standard input.")]
_ONE_OR_WEIGHTS = "the number of one layer (0 is the word alone), or one weight per layer, separated by commas."
LayerChoice = Annotated[
    str | None,
    option(
        "--layers LAYERS",
        "Layers to return: average, top, all, concat, meaning (the top layer with the context layer), "
        + _ONE_OR_WEIGHTS,
        shown="average",
    ),
]
MeaningChoice = Annotated[
    str | None,
    option(
        "--layers",
        f"Layers to compare: meaning, average, top, concat, {_ONE_OR_WEIGHTS}",
        shown="meaning, or average without a context layer",
    ),
]
_ONE_LAYER = "Layer to compare by: a number, top, average or meaning"
Layers = Annotated[
    list[str] | None,
    option(
        "--layers LAYER", f"{_ONE_LAYER}; repeatable.", shown="meaning, or all above 0 without a context layer"
    ),
]
OneLayer = Annotated[
    str | None, option("--layers LAYER", f"{_ONE_LAYER}.", shown="meaning, or top without a context layer")
]
SplitOnSpaces = Annotated[bool, option("--split-on-spaces", "Split words at spaces only, instead of tokenizing.")]
Device = Annotated[str, option("--device DEVICE", "Device to compute on: cpu, cuda, cuda:1 or mps.")]
StateChoice = Annotated[
    State, option("--state", "State at the start of a sentence: zero, or carried over from the one before.")
]
PrecisionChoice = Annotated[
    str,
    option(
        "--precision PRECISION",
        "Precision of the matrix multiplications: float32, bfloat16, int8, or auto for the fastest on this CPU. "
        "float32 replaces one that the CPU lacks.",
    ),
]
Threads = Annotated[int | None, option("--threads N", "Number of CPU threads.", shown="chosen by torch")]
LocalFilesOnly = Annotated[bool, option("--local-files-only", "Make no network call; use downloaded files only.")]
AsJson = Annotated[bool, option("--json", "Print one line of JSON, for programs.")]
Labelled = Annotated[
    str | None,
    option(
        "--labelled FILE",
        "Labelled occurrences instead of a corpus: X.data.xml with X.gold.key.txt beside it, or lines of label, "
        "tab, and sentence with the [word].",
    ),
]
MaxOccurrences = Annotated[
    int, option("", "Maximum number of occurrences; more frequent words are sampled.", min=1)
]
Seed = Annotated[int, option("--seed N", "Random seed.")]


def read_layers(given: str | None, *, names: Sequence[str] = NAMED_LAYERS) -> "LayerValue":
    """Return the value of --layers: one of the names, the number of a layer, or one weight per layer."""
    if given is None:
        return "average"
    if given in names:
        return given  # type: ignore[return-value]
    try:
        if "," not in given:
            return int(given)
        weights = [float(part) for part in given.split(",")]
        if all(math.isfinite(weight) for weight in weights):
            return weights
    except ValueError:
        pass
    raise InputError(
        f"--layers is {given!r}; give {', '.join(names)}, the number of a layer, or one weight per "
        "layer, separated by commas."
    )


def sentences_at_once(state: State) -> int:
    """Return how many sentences a model reads at a time."""
    # Sentences of one batch start in the same state, so carrying it over needs batches of one.
    if state == "carry":
        return 1
    from elmo.model import SENTENCES_READ_AHEAD

    return SENTENCES_READ_AHEAD


def open_model(
    name: str | None,
    *,
    format: str | None = None,
    device: str = "cpu",
    state: State = "zero",
    precision: str = "float32",
    threads: int | None = None,
    local_files_only: bool = False,
) -> "Elmo":
    """Open the model that --model names, or the default one."""
    from elmo.model import Elmo

    if threads is not None and threads < 1:
        raise InputError(f"--threads is {threads}; give 1 or more.")
    return Elmo.from_pretrained(
        name,
        format=cast("Format | None", format),
        device=device,
        state=state,
        precision=precision,
        num_threads=threads,
        local_files_only=local_files_only,
    )


def _choose_model(texts: Sequence[str]) -> str | None:
    """Return the model for the script of the user's texts, and say so if it is not the default one."""
    from elmo.checkpoint.source import choose_model

    name = choose_model(texts)
    if name is not None:
        typer.echo(f"elmo: using the model {name} for this text; --model chooses another one.", err=True)
    return name


@dataclass(frozen=True)
class FilesOptions:
    """How the files of a model are found and read."""

    format: ModelFormat = None
    local_files_only: LocalFilesOnly = False

    def read(self, name: str | None) -> "Checkpoint":
        """Read a model without building its network."""
        from elmo.checkpoint.open import open_checkpoint
        from elmo.checkpoint.source import DEFAULT_MODEL

        return open_checkpoint(
            DEFAULT_MODEL if name is None else name,
            format=cast("Format | None", self.format),
            local_files_only=self.local_files_only,
        )

    def open(self, name: str | None) -> "Elmo":
        """Open a model to compute with."""
        return open_model(name, format=self.format, local_files_only=self.local_files_only)


@dataclass(frozen=True)
class ModelOptions:
    """Which model to open."""

    model: ModelName = None
    format: ModelFormat = None
    device: Device = "cpu"
    local_files_only: LocalFilesOnly = False

    def open(
        self,
        corpus: "CorpusIndex | list[str] | None" = None,
        *,
        texts: Sequence[str] = (),
        state: State = "zero",
        precision: str = "float32",
        threads: int | None = None,
    ) -> "Elmo":
        """Open the model; without a name the one that an index was built with, or that fits the texts of the user.

        An index needs its own model.
        """
        index = None if corpus is None or isinstance(corpus, list) else corpus
        name = self.model
        if name is None:
            name = _choose_model(texts) if index is None else index.manifest.model
        model = open_model(
            name, format=self.format, device=self.device, state=state, precision=precision, threads=threads,
            local_files_only=self.local_files_only,
        )  # fmt: skip
        if index is not None:
            index.check_model(model)
        return model


@dataclass(frozen=True)
class CorpusOptions:
    """Which text to read, and how."""

    corpus: Annotated[
        list[str] | None,
        option(
            "--corpus -c PATH",
            "An index, or text files (.txt, .jsonl, .parquet, also .gz, .xz, .zst); repeatable.",
            shown=False,
        ),
    ] = None
    source: Annotated[
        list[str] | None,
        option(
            "--source PATTERN",
            "Use only files of the corpus whose name matches, as in 'books*'; repeatable.",
            shown=False,
        ),
    ] = None
    sentences: Annotated[
        str | None, option("--sentences FIRST:LAST", "Use only these sentences of each file, from 0.")
    ] = None
    split: Annotated[
        Literal["sentences", "lines", "none"],
        option("--split", "What a sentence is: detected in the lines, each line, or each document."),
    ] = "sentences"
    language: Annotated[
        str | None, option("--language CODE", "Language of the sentence detection: en, de, …", shown="en")
    ] = None
    field: Annotated[str, option("--column NAME", "Column or JSON field that has the text.")] = "text"
    split_on_spaces: SplitOnSpaces = False

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
            elmo = model.open(texts=[word])
            occurrences = find_labelled(
                labelled, word, max_occurrences=max_occurrences, seed=seed, tokenization=elmo.tokenization
            )
            return occurrences, elmo
        corpus = self.open()
        opened = model.open(corpus, texts=[word])
        found = find_occurrences(
            corpus, word, corpus_filter=self.filter, reading=settings_for(opened, self.reading),
            max_occurrences=max_occurrences, seed=seed, progress=True,
        )  # fmt: skip
        return found, opened
