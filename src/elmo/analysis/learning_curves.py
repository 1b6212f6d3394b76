"""A comparison with several shares of the training data -> its learning curves as a picture."""

from pathlib import Path

from elmo.analysis.drawing import check_output, require_matplotlib
from elmo.errors import CheckpointError, InputError
from elmo.tasks.compare import RESULTS_FILE, Row
from elmo.tasks.folder import read_json
from elmo.tasks.learning_curve import draw_learning_curve


def read_comparison(folder: str | Path) -> list[Row]:
    """Read the rows that `elmo task train --compare` wrote."""
    path = Path(folder) / RESULTS_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no comparison: it has no {RESULTS_FILE}; make one with --compare.")
    try:
        return [Row(**row) for row in read_json(path)["rows"]]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; run the comparison again.") from error


def draw_learning_curves(folder: str | Path, output: str | Path, *, title: str | None = None) -> None:
    """Draw the score of each variant over the share of the training data."""
    require_matplotlib()
    path, rows = check_output(output), read_comparison(folder)
    if len({row.fraction for row in rows}) < 2:
        raise InputError(
            f"{folder} has one share of the training data, which makes no curve; compare with "
            "--fractions 0.01,0.1,1."
        )
    draw_learning_curve(rows, path, title or Path(folder).resolve().name)
