"""The table of commands. A command is a typed function (command.py), whose module is imported on first use."""

import functools
from importlib import import_module

import click

from elmo import __version__
from elmo.cli.command import CONTEXT_SETTINGS, HelpPage, make_command

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
    "export onnx": "models",
    "export word2vec": "models",
}
GROUPS = {
    "task": "Train and use task networks with ELMo.",
    "plot": "Plot the similarity and the senses of words.",
    "export": "Write a model for other programs: ONNX, word2vec.",
}


@functools.cache
def load_command(path: str) -> click.Command:
    """Import a command by its name in the table."""
    name = path.split()[-1]
    return make_command(getattr(import_module(f"elmo.cli.commands.{COMMANDS[path]}"), name), name)


class _Commands(HelpPage, click.Group):
    """The commands whose names begin with the name of the group, or all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        if self.name in GROUPS:
            return [path.split()[1] for path in COMMANDS if path.startswith(f"{self.name} ")]
        return [*(path for path in COMMANDS if " " not in path), *GROUPS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        if cmd_name in GROUPS:
            return _Commands(cmd_name, help=GROUPS[cmd_name], callback=_explain, invoke_without_command=True)
        return load_command(f"{self.name} {cmd_name}" if self.name in GROUPS else cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        self.commands = dict.fromkeys(self.list_commands(ctx))  # type: ignore[assignment]  # names for "Did you mean"
        return super().resolve_command(ctx, args)


def _explain() -> None:
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        print(context.get_help())
        context.exit(2)


@click.version_option(__version__, message="elmo %(version)s", help="Print the version.")
@click.group("elmo", cls=_Commands, invoke_without_command=True, context_settings=CONTEXT_SETTINGS)
def app() -> None:
    """Contextual word vectors from bidirectional language models (ELMo).

    \b
    Example: elmo similarity "I went to the [bank] to deposit money" "I sat by the [bank] of the river"
    """
    _explain()
