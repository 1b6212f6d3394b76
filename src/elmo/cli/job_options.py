"""The options of `embed` and `encode` for what they read, and for the folders they write."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.files.sources import Kind


class InputKind(str, Enum):
    """What a file of input is."""

    txt = "txt"
    jsonl = "jsonl"
    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    conllu = "conllu"


class FileFormat(str, Enum):
    """How a folder keeps vectors."""

    parquet = "parquet"
    npy = "npy"
    hdf5 = "hdf5"


class DType(str, Enum):
    """What the numbers of a folder are."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


class OnError(str, Enum):
    """What a broken row does."""

    stop = "stop"
    reject = "reject"


class Engine(str, Enum):
    """Who computes."""

    local = "local"
    ray = "ray"


InputFormat = Annotated[
    InputKind | None,
    typer.Option("--format", show_default="by the ending", help="Format of the input files."),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column",
        metavar="NAME",
        show_default="text, sentence, tokens or words",
        help="The column or JSON field of a text, or of a list of words.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", metavar="NAME", show_default="id", help="Folders: the column that names a row."),
]
FolderFormat = Annotated[
    FileFormat | None, typer.Option("--file-format", show_default="parquet", help="Folders: the files in it.")
]
FolderDType = Annotated[
    DType | None,
    typer.Option(show_default="float32", help="Folders: the numbers; int8 has a scale for each vector."),
]
OnErrorChoice = Annotated[
    OnError | None,
    typer.Option(
        "--on-error",
        show_default="stop",
        help="Folders: stop at a row that cannot be read, or list it in rejects.jsonl and go on.",
    ),
]
NumWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", show_default="one for two threads", help="Folders: how many processes compute."
    ),
]
EngineChoice = Annotated[
    Engine | None,
    typer.Option("--engine", show_default="local", help="Folders: this machine, or the workers of a Ray cluster."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="ADDRESS", help="Of the Ray cluster, such as auto or ray://host:10001."),
]
PartBytes = Annotated[
    int | None,
    typer.Option(
        "--part-bytes",
        metavar="N",
        show_default="1048576",
        help="Folders: how much text a part, the unit of resuming, has.",
    ),
]
MaxWords = Annotated[
    int | None,
    typer.Option("--max-words", metavar="N", show_default="32768", help="Folders: a longer row is a broken one."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace other vectors that the folder holds.")]


@dataclass(frozen=True)
class JobOptions:
    """What was given, None or False where nothing was."""

    input_format: InputKind | None
    column: str | None
    id_column: str | None
    file_format: FileFormat | None
    dtype: DType | None
    on_error: OnError | None
    workers: int | None
    engine: Engine | None
    address: str | None
    part_bytes: int | None
    max_words: int | None
    force: bool

    @property
    def kind(self) -> "Kind | None":
        """What all input files are, if it was said."""
        return None if self.input_format is None else self.input_format.value

    def check_no_folder(self, **more: object) -> None:
        """Refuse what only a folder has, when there is none; `more` are options of one command."""
        given = {**vars(self), **more}
        for name in ("input_format", "column"):
            del given[name]
        for name, value in given.items():
            if value:
                option = f"--{name.replace('_', '-')}"
                raise InputError(
                    f"{option} is for folders of vectors, but --output names none; give a name without an ending."
                )
