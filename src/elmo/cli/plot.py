"""`elmo plot KIND`: pictures of what was measured, each kind a command of its own."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.help_text import TidyCommand
from elmo.cli.plot_analysis import plot_map, plot_similarity
from elmo.cli.plot_options import PictureFile, PictureFont
from elmo.files.rows import to_json

plot = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
plot.command("similarity", cls=TidyCommand)(plot_similarity)
plot.command("map", cls=TidyCommand)(plot_map)


@plot.callback(invoke_without_command=True)
def explain(context: typer.Context) -> None:
    """Draw what was measured: sentences, words, layers, curves."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


@plot.command("training", cls=TidyCommand)
def plot_training(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a training run.")],
    output: PictureFile = Path("training.png"),
    json: options.AsJson = False,
) -> None:
    """Draw the curves of a training run.

    \b
    Example:
      elmo plot training run --output curves.png
    """
    from elmo.analysis.training_curves import draw_training_curves

    draw_training_curves(run, output)
    if json:
        from elmo.pretrain.metrics import read_metrics

        print(to_json(list(read_metrics(run))))
        return
    print(f"{output} shows the training run in {run}.")


@plot.command("mixing", cls=TidyCommand)
def plot_mixing(
    tasks: Annotated[
        list[Path], typer.Argument(metavar="TASK", help="Folders of trained tasks, or of comparisons.")
    ],
    output: PictureFile = Path("mixing.png"),
    font: PictureFont = None,
    json: options.AsJson = False,
) -> None:
    """Draw what each layer counts in tasks.

    These are the weights s_j of their learned mixes.

    \b
    Example:
      elmo plot mixing tagger sentiment entailment --output mixing.svg
    """
    from elmo.analysis.mixing_bars import draw_mixing_weights
    from elmo.analysis.task_mixes import mixing_weights

    mixes = [mix for task in tasks for mix in mixing_weights(task)]
    draw_mixing_weights(mixes, output, font=font)
    told = f"{output} shows {len(mixes)} mix(es) of {len(tasks)} folder(s)."
    print(to_json([mix.to_dict() for mix in mixes]) if json else told)


@plot.command("learning", cls=TidyCommand)
def plot_learning(
    comparison: Annotated[
        Path, typer.Argument(metavar="RUN", help="What `elmo task train --compare --fractions …` wrote.")
    ],
    output: PictureFile = Path("learning.png"),
    title: Annotated[str | None, typer.Option(help="Above the picture.", show_default="the folder")] = None,
    json: options.AsJson = False,
) -> None:
    """Draw the learning curves of a comparison.

    \b
    Example:
      elmo plot learning compared --output learning.png
    """
    from elmo.analysis.learning_curves import draw_learning_curves, read_comparison

    draw_learning_curves(comparison, output, title=title)
    told = f"{output} shows the learning curves in {comparison}."
    print(to_json([dataclasses.asdict(row) for row in read_comparison(comparison)]) if json else told)
