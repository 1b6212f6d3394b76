"""Folders of vectors on the command line: the options of `embed` and `encode` for them, and writing one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmo.cli.resuming import resumable
from elmo.errors import InputError
from elmo.files.sources import Kind
from elmo.files.work_folder import MANIFEST
from elmo.heap import reuse_large_blocks
from elmo.vectors.settings import DType, FileFormat, Unit

if TYPE_CHECKING:
    from elmo.model import Elmo

InputFormat = Annotated[
    Kind | None,
    typer.Option("--format", show_default="by the ending", help="Format of the input files."),
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
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", metavar="NAME", show_default="id", help="Folders: column of the row ids."),
]
FolderFormat = Annotated[
    FileFormat | None,
    typer.Option("--file-format", show_default="parquet", help="Folders: format of the files in it."),
]
FolderDType = Annotated[
    DType | None,
    typer.Option(show_default="float32", help="Folders: type of the numbers; int8 has a scale per vector."),
]
OnError = Annotated[
    Literal["stop", "reject"] | None,
    typer.Option(
        "--on-error",
        show_default="stop",
        help="Folders: stop at a row that cannot be read, or list it in rejects.jsonl and continue.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", show_default="one per two threads", help="Folders: number of processes."
    ),
]
Engine = Annotated[
    Literal["local", "ray"] | None,
    typer.Option("--engine", show_default="local", help="Folders: compute on this machine, or on a Ray cluster."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="ADDRESS", help="Ray cluster to use, such as auto or ray://host:10001."),
]
PartBytes = Annotated[
    int | None,
    typer.Option(
        "--part-bytes",
        metavar="N",
        show_default="1048576",
        help="Folders: size of the text in one part, the unit of resuming.",
    ),
]
MaxWords = Annotated[
    int | None,
    typer.Option("--max-words", metavar="N", show_default="32768", help="Folders: longest row, in words."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace other vectors in the folder.")]

_SETTINGS = ("column", "id_column", "file_format", "dtype", "part_bytes", "max_words")
_FOLDER_ONLY = (
    "only", "spans", "id_column", "file_format", "dtype", "on_error", "workers", "engine", "address", "part_bytes",
    "max_words", "force",
)  # fmt: skip


def check_no_folder(given: dict[str, Any]) -> None:
    """Raise InputError for an option that only a folder has, when --output names none."""
    for name in _FOLDER_ONLY:
        if given.get(name):
            raise InputError(
                f"--{name.replace('_', '-')} is for folders of vectors, but --output names none; choose a name "
                "without an ending."
            )


def write_folder(given: dict[str, Any], unit: Unit, open_model: "Callable[..., Elmo]", **settings: Any) -> None:
    """Write the folder of a command; `given` are its options by name, `settings` those that decide the vectors."""
    if given["text"]:
        raise InputError("--text goes with standard output or one file; name files, or -, to fill a folder.")
    if not given["inputs"]:
        raise InputError("Nothing to read; name files, or - for standard input.")
    if given["state"] == "carry":
        raise InputError(
            "--state carry reads one sentence after another, but the parts of a folder are computed "
            "independently; write one file instead, such as vectors.h5."
        )
    from elmo.vectors.embed import embed_files
    from elmo.vectors.settings import VectorSettings
    from elmo.vectors.writing import share_threads

    settings |= {name: given[name] for name in _SETTINGS if given[name] is not None}
    chosen = VectorSettings(unit=unit, **settings)
    workers, threads, on_ray = given["workers"], given["threads"], given["engine"] == "ray"
    on_cpu = given["device"] == "cpu"
    num_workers, num_threads = share_threads(*((None, None) if on_ray else (workers, threads)), on_cpu=on_cpu)
    reuse_large_blocks()
    model, output = open_model(threads=num_threads), Path(given["output"])
    before = _read_time(output)
    with resumable():
        vectors = embed_files(
            model,
            given["inputs"],
            output,
            chosen,
            input_format=given["input_format"],
            on_error=given["on_error"] or "stop",
            workers=workers if on_ray else num_workers,
            threads=threads if on_ray else num_workers * num_threads,
            engine=given["engine"] or "local",
            address=given["address"],
            force=given["force"],
            progress=True,
        )
    counts = vectors.counts
    facts = {"rows": counts.num_written, "words": counts.num_words, "vectors": counts.num_vectors}
    if unit == "spans":
        facts["rows without a chosen word"] = counts.num_without_span
    if counts.num_rejected:
        facts["rejected rows, see rejects.jsonl"] = counts.num_rejected
    listed = ", ".join(f"{name}: {number:,}" for name, number in facts.items())
    is_old = before is not None and _read_time(output) == before
    print(f"{output} was finished already ({listed})." if is_old else f"Wrote {output} ({listed}).")


def _read_time(output: Path) -> int | None:
    return (output / MANIFEST).stat().st_mtime_ns if (output / MANIFEST).is_file() else None
