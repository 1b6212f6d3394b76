"""The table of commands. A new command is a file with one typed function, and a row here."""

from collections.abc import Callable
from typing import Annotated

import typer

from elmo.cli.align import align
from elmo.cli.average import average
from elmo.cli.bench import bench
from elmo.cli.convert import convert
from elmo.cli.embed import embed, encode
from elmo.cli.evaluate import evaluate
from elmo.cli.fuse import fuse
from elmo.cli.help_text import TidyCommand, TidyGroup
from elmo.cli.info import info
from elmo.cli.neighbors import neighbors
from elmo.cli.plot import plot
from elmo.cli.prepare import prepare
from elmo.cli.probe import probe
from elmo.cli.score import score
from elmo.cli.senses import senses
from elmo.cli.serve import serve
from elmo.cli.similarity import similarity
from elmo.cli.static import static
from elmo.cli.substitutes import substitutes
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

app = typer.Typer(
    cls=TidyGroup,
    pretty_exceptions_enable=False,
    # Plain help keeps [brackets] as they are, and rich need not be imported for it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name, cls=TidyCommand)(_command)
app.add_typer(task, name="task")
app.add_typer(plot, name="plot")


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
