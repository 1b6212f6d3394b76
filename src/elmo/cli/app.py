"""The table of commands, their help pages, and the flags of the release before.

A new command is a typed function and a row here. Groups of commands (`elmo task train`) are loaded when used.
"""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from elmo.cli.commands.analysis import neighbors, probe, senses, similarity
from elmo.cli.commands.bench import bench
from elmo.cli.commands.embed import embed, encode
from elmo.cli.commands.info import info
from elmo.cli.commands.language_model import evaluate, score, substitutes
from elmo.cli.commands.models import average, convert, vocab
from elmo.cli.commands.pretrain import fuse, prepare, static, train
from elmo.cli.commands.serve import page, serve
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
    "average": average,
    "fuse": fuse,
    "static": static,
    "neighbors": neighbors,
    "senses": senses,
    "probe": probe,
    "vocab": vocab,
    "serve": serve,
    "page": page,
    "bench": bench,
}
# The module of each group, and its help.
GROUPS = {
    "task": ("task", "Train and use a task network with ELMo in it."),
    "plot": ("plot", "Draw what was measured: sentences, words, layers, curves."),
    "export": ("models", "Write a model for other programs: ONNX, word2vec."),
}

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


class _LazyGroup(_TidyGroup):
    """Loads its commands when one is used, so that `elmo --help` need not wait for their settings."""

    def list_commands(self, ctx: Any) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands and self.name is not None:
            group = getattr(import_module(f"elmo.cli.commands.{GROUPS[self.name][0]}"), self.name)
            for info in group.registered_commands:
                info.cls = _TidyCommand
            self.commands = typer.main.get_group(group).commands


app = typer.Typer(
    cls=_TidyGroup,
    pretty_exceptions_enable=False,
    # Plain help keeps [brackets] as they are, and rich need not be imported for it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name, cls=_TidyCommand)(_command)


def _explain(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


for _name, (_, _help) in GROUPS.items():
    _group = typer.Typer(cls=_LazyGroup, rich_markup_mode=None)
    _group.callback(invoke_without_command=True, help=_help)(_explain)
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
    _explain(context)


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
