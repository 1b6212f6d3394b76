"""The table of commands, their help pages, and the flags of the release before.

A new command is a file with one typed function and a row here.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from elmo.cli.align import align
from elmo.cli.average import average
from elmo.cli.bench import bench
from elmo.cli.convert import convert
from elmo.cli.embed import embed, encode
from elmo.cli.evaluate import evaluate
from elmo.cli.export import export
from elmo.cli.fuse import fuse
from elmo.cli.info import info
from elmo.cli.language_model import score, substitutes
from elmo.cli.neighbors import neighbors
from elmo.cli.plot import plot
from elmo.cli.prepare import prepare
from elmo.cli.probe import probe
from elmo.cli.senses import senses
from elmo.cli.serve import serve
from elmo.cli.similarity import similarity
from elmo.cli.static import static
from elmo.cli.task import task
from elmo.cli.train import train
from elmo.cli.vocab import vocab
from elmo.version import __version__

COMMANDS: dict[str, Callable[..., None]] = {
    "embed": embed,
    "encode": encode,
    "similarity": similarity,
    "score": score,
    "substitutes": substitutes,
    "evaluate": evaluate,
    "info": info,
    "convert": convert,
    "prepare": prepare,
    "train": train,
    "align": align,
    "average": average,
    "fuse": fuse,
    "static": static,
    "neighbors": neighbors,
    "senses": senses,
    "probe": probe,
    "vocab": vocab,
    "serve": serve,
    "bench": bench,
}

GROUPS = {"task": task, "plot": plot, "export": export}

# Flags that had another name in the release before: one name has one meaning in all commands now. The old names
# still work, appear in no help page, and go with the next release.
MODEL_FORMATS = ("elmo", "manylangs", "hdf5", "tensorflow", "zip")
_OF_ANALYSIS = {"--layer": "--layers", "--field": "--column", "--format": "--model-format"}
_OF_VECTORS = {"--input-format": "--format"}
_OF_MODELS = {"--format": "--model-format"}
RENAMED: dict[str, dict[str, str]] = {
    **dict.fromkeys(("embed", "encode"), _OF_VECTORS),
    **dict.fromkeys(("similarity", "evaluate", "info", "convert", "average", "vocab", "bench"), _OF_MODELS),
    "score": {**_OF_MODELS, "--words": "--by-word"},
    "substitutes": {**_OF_MODELS, "--index": "--word-index"},
    "align": {**_OF_MODELS, "--words": "--max-words"},
    "neighbors": {**_OF_ANALYSIS, "--words": "--match", "--index": "--word-index"},
    "senses": _OF_ANALYSIS,
    "prepare": {"--field": "--column"},
    "plot similarity": {**_OF_MODELS, "--layer": "--layers"},
    "plot map": _OF_ANALYSIS,
    "task train": {"--words": "--word-features"},
}

# What help pages call the types of arguments.
_TYPE_NAMES = {
    "str": "TEXT", "int": "N", "float": "X", "int range": "N", "float range": "X", "path": "PATH", "Path": "PATH",
    "list[str]": "TEXT", "list[float]": "X", "list[int]": "N", "list[Path]": "PATH", "file": "FILE",
}  # fmt: skip
_ARGUMENT = re.compile(r"(?m)^(  [A-Z][A-Z_|]*) <[\w\[\].| -]+>( *)(?=$|\S)")
_OPTION = re.compile(r"(?m)^(  (?:-\w, )?--[\w-]+ )<([\w\[\].| -]+)>( *)")
_REQUIRED = re.compile(r"\{([A-Z][A-Z_|]*)\}")


class _TidyCommand(TyperCommand):
    def get_help(self, ctx: Any) -> str:
        return _tidy(super().get_help(ctx))


class _TidyGroup(TyperGroup):
    def get_help(self, ctx: Any) -> str:
        return _tidy(super().get_help(ctx))


app = typer.Typer(
    cls=_TidyGroup,
    pretty_exceptions_enable=False,
    # Plain help keeps [brackets] as they are, and rich need not be imported for it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name, cls=_TidyCommand)(_command)
for _name, _group in GROUPS.items():
    for _info in _group.registered_commands:
        _info.cls = _TidyCommand
    app.add_typer(_group, name=_name)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"elmo {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def elmo(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Contextual word vectors from bidirectional language models (ELMo).

    \b
    Example: elmo similarity "I went to the [bank] to deposit money" "I sat by the [bank] of the river"
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


def translate(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a call with old names of flags replaced."""
    num_names = 2 if arguments and arguments[0] in GROUPS else 1
    command = " ".join(arguments[:num_names])
    renamed = RENAMED.get(command, {})
    translated = list(arguments)
    for place in range(num_names, len(translated)):
        if translated[place] == "--":
            break
        name, equals, value = translated[place].partition("=")
        if command in ("embed", "encode") and name == "--format":
            # The old --format named the model's format, with values that the format of the input does not have.
            meant = value if equals else " ".join(translated[place + 1 : place + 2])
            name = "--model-format" if meant in MODEL_FORMATS else name
        translated[place] = renamed.get(name, name) + equals + value
    return translated


def _tidy(page: str) -> str:
    """Return a help page with {NAME} as NAME, and <type> left out or named; columns stay aligned."""
    usage, line_feed, rest = page.partition("\n")
    rest = _ARGUMENT.sub(lambda found: _replace(found, found[1], found[2]), rest)
    rest = _OPTION.sub(
        lambda found: _replace(found, found[1] + _TYPE_NAMES.get(found[2], found[2]), found[3]), rest
    )
    return _REQUIRED.sub(r"\1", usage) + line_feed + rest


def _replace(found: re.Match[str], text: str, padding: str) -> str:
    return text + (" " * (len(found[0]) - len(text)) if padding else "")
