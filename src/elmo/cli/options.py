"""The options that several commands share, and the functions that read them: layers, corpus, model."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from elmo.cli.command import argument, list_given, option
from elmo.corpus.settings import TextSettings
from elmo.errors import InputError
from elmo.language import translate

if TYPE_CHECKING:
    from elmo.analysis.index import CorpusIndex
    from elmo.analysis.occurrences import Occurrences
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.inference.layers import Layers as LayerValue
    from elmo.model import Elmo

State: TypeAlias = Literal["zero", "carry"]
_FILES = (
    "Files: .txt (one sentence per line), .jsonl, .csv, .tsv, .parquet or .conllu, compressed (.gz, .xz, .zst) or "
    "not; patterns such as 'texts/*.txt'; - is standard input."
)
MODEL_HELP = "A folder, an .hdf5 or .zip file, an alias such as 'small', or a hub id."
_LAYERS = (
    "Layers: average, top, all, concat, meaning, the number of one layer (0 is the word alone), or one weight per "
    "layer, separated by commas."
)
_DEFAULT_LAYERS = "meaning, or average without a context layer"
_ONE_LAYER = "Layer to compare by: a number, top, average or meaning"
_PRECISIONS = "Precision of the matrix multiplications: float32, int8, auto, or bfloat16 on a GPU."

Rows = Annotated[list[str] | None, argument("INPUT", f"A sentence in quotes, or files. {_FILES}")]
Column = Annotated[
    str | None,
    option("--column NAME", "Column of the text, or of a list of words.", shown="text, sentence, tokens or words"),
]
Texts = Annotated[list[str] | None, option("--text SENTENCE", "A sentence; repeatable.", shown=False)]
ModelName = Annotated[str | None, option("--model -m MODEL", MODEL_HELP, shown="en-small, or zh-small for Chinese")]
ModelArgument = Annotated[str, argument("MODEL", MODEL_HELP)]
ModelFormat = Annotated[
    Literal["elmo", "manylangs", "hdf5", "tensorflow"] | None,
    option("--model-format FORMAT", "elmo, manylangs, hdf5 or tensorflow.", shown="detected"),
]
Storage = Annotated[
    Literal["float32", "float16", "compact"] | None,
    option(
        "--storage",
        "Type of the stored weights: float16 needs half the space of float32, compact also stores the softmax as int8. "
        "Rounding changes the vectors slightly.",
        shown="as the model is stored",
    ),
]
MarkedSentence = Annotated[str, argument("SENTENCE", "A sentence with one [marked] word.")]
TextFiles = Annotated[list[str], argument("TEXT", "Text files in UTF-8; - is standard input.")]
LayerChoice = Annotated[str | None, option("--layers LAYERS", _LAYERS, shown=_DEFAULT_LAYERS)]
Layers = Annotated[
    list[str] | None,
    option("--layers LAYER", f"{_ONE_LAYER}; repeatable.", shown="meaning, or all above 0 without a context layer"),
]
OneLayer = Annotated[
    str | None, option("--layers LAYER", f"{_ONE_LAYER}.", shown="meaning, or top without a context layer")
]
SplitOnSpaces = Annotated[bool, option("--split-on-spaces", "Split words at spaces only, instead of tokenizing.")]
Device = Annotated[str, option("--device DEVICE", "Device to compute on: cpu, cuda, cuda:1 or mps.")]
StateChoice = Annotated[
    State, option("--state", "State at the start of a sentence: zero, or carried over from the previous sentence.")
]
PrecisionChoice = Annotated[str | None, option("--precision PRECISION", _PRECISIONS, shown="auto")]
Threads = Annotated[int | None, option("--threads N", "Number of CPU threads.", shown="all cores", min=1)]
LocalFilesOnly = Annotated[bool, option("--local-files-only", "Do not access the network; only use downloaded files.")]
AsJson = Annotated[bool, option("--json", "Print one line of JSON, for programs.")]
MaxOccurrences = Annotated[
    int, option("--max-occurrences N", "Maximum number of occurrences; more frequent words are sampled.", min=1)
]
Seed = Annotated[int, option("--seed N", "Random seed.", min=0)]


def read_layers(text: str | None) -> "LayerValue | None":
    """Return the value of --layers: a name, the number of a layer, or one weight per layer; the model checks it."""
    if text is None or text == "auto":
        return None
    try:
        return [float(weight) for weight in text.split(",")] if "," in text else int(text)
    except ValueError:
        return cast("LayerValue", text)


def read_pairs(items: Sequence[str] | None, flag: str, form: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Return the names and values of arguments of a form such as NAME=VALUE."""
    pairs: dict[str, str] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not (value.strip() or may_be_empty):
            raise InputError(f"{flag} is {item!r}; write it as {form}.")
        pairs[name.strip()] = value.strip()
    return pairs


def read_changes(changes: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings of NAME=VALUE arguments; a value is TOML, or a string without quotes."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    settings: dict[str, Any] = {}
    for name, value in read_pairs(changes, "--set", "NAME=VALUE", may_be_empty=True).items():
        try:
            settings[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[name] = value
    return settings


def check_resume(*allowed: str) -> None:
    """Raise InputError if the user gave more than --resume and the `allowed` flags."""
    if unused := [flag for flag in list_given() if flag not in ("--resume", *allowed)]:
        raise InputError(f"--resume continues with the settings of the run, so it takes no {', '.join(unused)}.")


def choose_model(texts: Sequence[str]) -> str | None:
    """Return the model for the script of the texts, and print its name if it is not the default model."""
    from elmo.checkpoint import source

    name = source.choose_model(texts)
    if name is not None:
        message = translate(f"using the model {name} for this text; --model chooses another one.")
        print("elmo:", message, file=sys.stderr)
    return name


@dataclass(frozen=True)
class FilesOptions:
    """How the files of a model are found and read."""

    format: ModelFormat = None
    local_files_only: LocalFilesOnly = False

    def read(self, name: str) -> "Checkpoint":
        """Read a model without building its network."""
        from elmo.checkpoint.open import open_checkpoint

        return open_checkpoint(name, format=self.format, local_files_only=self.local_files_only)

    def open_named(self, name: str | None, **settings: Any) -> "Elmo":
        """Open a model to compute with; the settings are those of Elmo.from_pretrained."""
        from elmo.model import Elmo

        return Elmo.from_pretrained(name, format=self.format, local_files_only=self.local_files_only, **settings)


@dataclass(frozen=True)
class ModelOptions(FilesOptions):
    """The model to open, with its device, precision and threads."""

    model: ModelName = None
    device: Device = "cpu"
    precision: PrecisionChoice = None
    threads: Threads = None

    def open(self, texts: Sequence[str] = (), *, default: str | None = None, state: State = "zero") -> "Elmo":
        """Open the model; without --model, open `default` or else the model for the script of the texts."""
        name = self.model or default or choose_model(texts)
        precision = self.precision or "auto"
        return self.open_named(name, device=self.device, state=state, precision=precision, num_threads=self.threads)


@dataclass(frozen=True)
class CorpusOptions:
    """The corpus to read, and how to read its text."""

    corpus: list[str] | None = option(
        "--corpus -c PATH",
        "An index, or text files (.txt, .jsonl, .parquet, also .gz, .xz, .zst); repeatable.", None, shown=False,
    )  # fmt: skip
    reading: Annotated[dict[str, Any], TextSettings, {"characters": None, "language": "en"}] = field(
        default_factory=dict
    )

    def open(self, model: ModelOptions, text: str) -> "tuple[CorpusIndex | list[str], Elmo]":
        """Open the index, or check that the text files exist; open the index's model, or the model for a text."""
        from elmo.analysis.index import CorpusIndex
        from elmo.analysis.occurrences import find_corpus
        from elmo.checkpoint.source import DEFAULT_NAME

        if not self.corpus:
            raise InputError("No corpus was given; give an index or text files with --corpus.")
        name = self.corpus[0]
        if len(self.corpus) > 1 or not Path(name).is_dir():
            find_corpus(self.corpus)
            return self.corpus, model.open([text])
        if self.reading:
            raise InputError(
                f"{name} is an index, whose text was read when it was built; leave out --split, --language, "
                "--column and --split-on-spaces."
            )
        index = CorpusIndex(name)
        opened = model.open([text], default=index.model_name or DEFAULT_NAME)  # whatever the script of the text
        index.check_model(opened)
        return index, opened

    def find(self, word: str, model: ModelOptions, max_occurrences: int, seed: int) -> "tuple[Occurrences, Elmo]":
        """Find the occurrences of a word in the corpus, and open the model."""
        from elmo.analysis import find_occurrences
        from elmo.analysis.occurrences import settings_for

        corpus, opened = self.open(model, word)
        reading = settings_for(opened, TextSettings(**self.reading))
        occurrences = find_occurrences(
            corpus, word, reading=reading, max_occurrences=max_occurrences, seed=seed, show_progress_bar=True
        )
        return occurrences, opened
