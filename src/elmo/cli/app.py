"""The table of commands. A command is a typed function (command.py), whose module is imported when it is used."""

import functools
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from elmo import __version__
from elmo.cli.command import HelpPage, make_command

# The module of each command in elmo.cli.commands; its function has the last word of the name.
COMMANDS = {
    "embed": "embed",
    "encode": "embed",
    "similarity": "analysis",
    "score": "language_model",
    "substitutes": "language_model",
    "evaluate": "language_model",
    "tag": "task",
    "info": "info",
    "convert": "models",
    "prepare": "corpus",
    "train": "train",
    "average": "models",
    "fuse": "corpus",
    "static": "corpus",
    "neighbors": "analysis",
    "senses": "analysis",
    "probe": "measure",
    "vocab": "models",
    "serve": "serve",
    "page": "serve",
    "bench": "measure",
    "task train": "task",
    "task evaluate": "task",
    "task predict": "task",
    "plot similarity": "plot",
    "plot map": "plot",
    "plot training": "plot",
    "plot mixing": "plot",
    "plot learning": "plot",
    "export onnx": "models",
    "export word2vec": "models",
}
GROUPS = {
    "task": "Train and use task networks with ELMo.",
    "plot": "Plot sentences, words, layers and training curves.",
    "export": "Write a model for other programs: ONNX, word2vec.",
}


@functools.cache
def load_command(path: str) -> Any:
    """Import a command by its name in the table."""
    name = path.split()[-1]
    return make_command(getattr(import_module(f"elmo.cli.commands.{COMMANDS[path]}"), name), name)


class _Commands(HelpPage, TyperGroup):
    """The commands whose names begin with the name of the group, or all."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The names are there for "Did you mean"; the commands are loaded when used.
        names: Any = dict.fromkeys(self.list_commands(None))
        self.commands = {**names, **self.commands}

    def list_commands(self, ctx: Any) -> list[str]:
        if self.name in GROUPS:
            return [path.split()[1] for path in COMMANDS if path.startswith(f"{self.name} ")]
        return [*(path for path in COMMANDS if " " not in path), *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        path = f"{self.name} {cmd_name}" if self.name in GROUPS else cmd_name
        return load_command(path) if path in COMMANDS else self.commands.get(path)


app = typer.Typer(
    cls=_Commands,
    pretty_exceptions_enable=False,
    # Plain help keeps [brackets] as they are, and rich need not be imported for it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _explain(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


for _name, _help in GROUPS.items():
    _group = typer.Typer(cls=_Commands, rich_markup_mode=None)
    _group.callback(invoke_without_command=True, help=_help)(_explain)
    app.add_typer(_group, name=_name)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
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
