"""The options of `elmo task` that say how files of examples are read."""

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.tasks.readers.formats import ReadSettings

_FORMATS = "conll, conllu, csv, tsv, jsonl, json, trees, semeval, squad or wsd"
FormatChoice = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help=f"Format of the files if it cannot be detected: {_FORMATS}."),
]
PredictFormatChoice = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=f"Format of the input if it cannot be detected: text (one sentence per line), {_FORMATS}.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        show_default=False,
        help="Which column has a role: word, tag, sentence; text, label; first, second, label; question, passage, "
        "answer, start. NAME is a name, a number from 1, or outer.inner in JSON; repeatable.",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", show_default=False, help="Whether the first row names the columns."),
]
TaskFolder = Annotated[str, typer.Argument(metavar="TASK", help="A folder that `elmo task train` wrote.")]
BilmPlace = Annotated[
    str | None,
    typer.Option("--bilm", metavar="MODEL", help="Where the task's biLM is now, if not where it was in training."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", help="In which precision the frozen biLM runs, such as float32.")
]


def read_pairs(given: list[str] | None, option: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Give what NAME=VALUE arguments say."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not (value.strip() or may_be_empty):
            raise InputError(f"{option} {item!r} is not NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


def make_read_settings(
    format: str | None,
    columns: list[str] | None,
    header: bool | None,
    target: str = "auto",
    split_on_spaces: bool = False,
) -> "ReadSettings":
    """Give the settings that these options mean."""
    from elmo.tasks.readers.formats import ReadSettings

    if target not in ("auto", "label", "score"):
        raise InputError(f"--target is {target!r}; choose label, score or auto.")
    kind = cast(Literal["auto", "label", "score"], target)
    return ReadSettings(format, read_pairs(columns, "--column"), header, kind, split_on_spaces)


def choose_read_settings(
    trained: "ReadSettings",
    family: str,
    path: str,
    format: str | None,
    columns: list[str] | None,
    header: bool | None,
) -> "ReadSettings":
    """Read as in training where the file is of the same format, else as the options say."""
    import dataclasses

    from elmo.tasks.readers.formats import format_of_file

    named = format or format_of_file(path, family)
    given = read_pairs(columns, "--column")
    if named is not None and named != trained.format:
        return dataclasses.replace(
            trained, format=format, columns=given, header=header, delimiter=None, num_columns=None
        )
    known = {role: name for role, name in trained.columns.items() if name not in given.values()} | given
    return dataclasses.replace(trained, columns=known, header=trained.header if header is None else header)
