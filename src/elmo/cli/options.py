"""The options that several commands share, declared once, and what they mean: layers, an open model."""

import math
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.open import Format
    from elmo.inference.layers import Layers
    from elmo.model import Elmo

NAMED_LAYERS = ("average", "top", "all", "concat", "meaning")


class State(str, Enum):
    """The state from which the language model reads a sentence."""

    zero = "zero"
    carry = "carry"


class StoredAs(str, Enum):
    """The forms in which a model folder can store its weights."""

    float32 = "float32"
    float16 = "float16"
    compact = "compact"


Rows = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT",
        show_default=False,
        help="Files: .txt (one sentence per line), .jsonl, .csv, .tsv, .parquet or .conllu, compressed (.gz, .xz, "
        ".zst) or not; patterns such as 'texts/*.txt'; - is standard input.",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column",
        metavar="NAME",
        show_default="text, sentence, tokens or words",
        help="Column or JSON field that holds the text, or a list of words.",
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="SENTENCE",
        show_default=False,
        help="A sentence to read after those of the files; repeatable.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR|FILE",
        help="Folder or file to write. A name without an ending is a folder, for text of any size; the ending "
        ".npz, .npy, .jsonl, .h5 or .hdf5 chooses the format of a single file. Without it, or with -, JSON lines "
        "go to standard output.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A folder, an .hdf5 or .zip file, an alias such as 'small', or a hub id; without it, the default "
        "model.",
    ),
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A folder, an .hdf5 or .zip file, an alias such as 'small', or a hub id."
    ),
]
ModelFormat = Annotated[
    str | None,
    typer.Option(
        "--model-format",
        metavar="FORMAT",
        help="Format of the model's files if it cannot be detected: elmo, manylangs, hdf5, tensorflow or zip.",
    ),
]
LayerChoice = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="LAYERS",
        show_default="average",
        help="Layers to return: average, top, all, concat, meaning (the top layer with the context layer), the "
        "number of one layer (0 is the word alone), or one weight per layer, separated by commas.",
    ),
]
MeaningChoice = Annotated[
    str | None,
    typer.Option(
        "--layers",
        show_default="meaning, or average without a context layer",
        help="Layers to compare: meaning, average, top, concat, the number of one layer (0 is the word alone), or "
        "one weight per layer, separated by commas.",
    ),
]
SplitOnSpaces = Annotated[
    bool, typer.Option("--split-on-spaces", help="Split words at spaces only, instead of tokenizing.")
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="Device to compute on: cpu, cuda, cuda:1 or mps.")
]
StateChoice = Annotated[
    State,
    typer.Option("--state", help="State at the start of a sentence: zero, or carried over from the one before."),
]
PrecisionChoice = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="PRECISION",
        help="Precision of the matrix multiplications: float32, bfloat16, int8, or auto for the fastest on this "
        "CPU. float32 replaces one that the CPU lacks.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", show_default="chosen by torch", help="Number of CPU threads."),
]
LocalFilesOnly = Annotated[
    bool,
    typer.Option("--local-files-only", help="Make no network call; use downloaded files only."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON, for programs.")]


def read_layers(given: str | None) -> "Layers":
    """Return the value of --layers: a name, the number of a layer, or one weight per layer."""
    if given is None:
        return "average"
    if given in NAMED_LAYERS:
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
        f"--layers is {given!r}; give {', '.join(NAMED_LAYERS)}, the number of a layer, or one weight per "
        "layer, separated by commas."
    )


def sentences_at_once(state: State) -> int:
    """Return how many sentences a model reads at a time."""
    # Sentences of one batch start in the same state, so carrying it over needs batches of one.
    if state is State.carry:
        return 1
    from elmo.model import SENTENCES_READ_AHEAD

    return SENTENCES_READ_AHEAD


def open_model(
    name: str | None,
    *,
    format: str | None = None,
    device: str = "cpu",
    state: State = State.zero,
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
        state="carry" if state is State.carry else "zero",
        precision=precision,
        num_threads=threads,
        local_files_only=local_files_only,
    )


def open_model_files(
    name: str | None, *, format: str | None = None, local_files_only: bool = False
) -> "Checkpoint":
    """Read a model without building its network."""
    from elmo.checkpoint.open import open_checkpoint
    from elmo.checkpoint.source import DEFAULT_MODEL

    return open_checkpoint(
        DEFAULT_MODEL if name is None else name,
        format=cast("Format | None", format),
        local_files_only=local_files_only,
    )
