"""`elmo task train|evaluate|predict`: ELMo in a task of the user's own."""

import typer

from elmo.cli.help_text import TidyCommand
from elmo.cli.task_evaluate import evaluate
from elmo.cli.task_predict import predict
from elmo.cli.task_train import train

task = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
task.command("train", cls=TidyCommand)(train)
task.command("evaluate", cls=TidyCommand)(evaluate)
task.command("predict", cls=TidyCommand)(predict)


@task.callback(invoke_without_command=True)
def explain(context: typer.Context) -> None:
    """Train and use a task network with ELMo in it."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)
