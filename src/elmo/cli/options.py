"""The options that several commands share, declared once, and the reading of --layers."""

import math
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.inference.layers import Layers

NAMED_LAYERS = ("average", "top", "all", "concat", "meaning")


class State(str, Enum):
    """Where the language model starts each sentence."""

    zero = "zero"
    carry = "carry"


class StoredAs(str, Enum):
    """How the weights of a folder can be stored."""

    float32 = "float32"
    float16 = "float16"
    compact = "compact"


Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT",
        show_default=False,
        help="Text files in UTF-8, one sentence a line; - is standard input.",
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT",
        show_default=False,
        help="Files of .txt (one sentence a line), .jsonl, .csv, .tsv, .parquet or .conllu, packed (.gz, .xz, "
        ".zst) or not, patterns such as 'texts/*.txt', or - for standard input.",
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="SENTENCE",
        show_default=False,
        help="A sentence itself, after those of the files; repeatable.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR|FILE",
        help="Where to write: a folder, for text of any size, is a name without an ending; of one file the ending "
        ".npz, .npy, .jsonl, .h5 or .hdf5 says the format. Without it, or with -, JSON lines go to standard "
        "output.",
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
        help="Which layers: average, top, all, concat, meaning (the top layer beside the context layer), the "
        "number of one (0 is the word alone), or a weight for each, separated by commas.",
    ),
]
MeaningChoice = Annotated[
    str | None,
    typer.Option(
        "--layers",
        show_default="meaning, or average without a context layer",
        help="Which layers: meaning, average, top, concat, the number of one (0 is the word alone), or a weight "
        "for each, separated by commas.",
    ),
]
SplitOnSpaces = Annotated[
    bool, typer.Option("--split-on-spaces", help="Take what stands between spaces as the words.")
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="Device that computes: cpu, cuda, cuda:1 or mps.")
]
StateChoice = Annotated[
    State,
    typer.Option("--state", help="Start each sentence anew, or carry on from where the one before it ended."),
]
PrecisionChoice = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="PRECISION",
        help="Precision of the matrix multiplications: float32, bfloat16, int8, or auto for the fastest of this "
        "CPU. One that it does not have becomes float32.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", show_default="as many as torch uses", help="Number of CPU threads."),
]
LocalFilesOnly = Annotated[
    bool, typer.Option("--local-files-only", help="Make no network call; use what was downloaded before.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON, for programs.")]


def read_layers(given: str | None) -> "Layers":
    """Give what --layers means: a name, the number of a layer, or a weight for each layer."""
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
        f"--layers is {given!r}; give {', '.join(NAMED_LAYERS)}, the number of a layer, or a weight for each "
        "layer, separated by commas."
    )


def sentences_at_once(state: State) -> int:
    """Give how many sentences a model is to read at a time."""
    # Sentences read together start together, so only one by one does each carry on from the one before it.
    if state is State.carry:
        return 1
    from elmo.model import SENTENCES_READ_AHEAD

    return SENTENCES_READ_AHEAD
