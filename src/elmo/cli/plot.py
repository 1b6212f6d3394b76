"""`elmo plot KIND`: pictures of what was measured."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Kind(str, Enum):
    """What can be drawn."""

    training = "training"


def plot(
    kind: Annotated[Kind, typer.Argument(help="training: the curves of a run.")],
    source: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a training run.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The picture, .png or .svg.")
    ] = Path("training.png"),
) -> None:
    """Draw the curves of a training run.

    \b
    Example:
      elmo plot training run --output curves.png
    """
    from elmo.analysis.training_curves import draw_training_curves

    draw_training_curves(source, output)
    print(f"{output} shows the training run in {source}.")
