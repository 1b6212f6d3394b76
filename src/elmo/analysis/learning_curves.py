"""A comparison with several shares of the training data -> its learning curves as a picture."""

from pathlib import Path

from elmo.analysis.drawing import COLOURS, MARKERS, check_output, drawing, require_matplotlib
from elmo.errors import CheckpointError, InputError
from elmo.tasks.comparison import RESULTS_FILE, Row
from elmo.tasks.folder import read_json


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
    with drawing(path, (6.5, 4.2)) as figure:
        axes = figure.subplots()
        for number, variant in enumerate(dict.fromkeys(row.variant for row in rows)):
            own = sorted((row for row in rows if row.variant == variant), key=lambda row: row.fraction)
            axes.errorbar(
                [100 * row.fraction for row in own],
                [row.mean for row in own],
                yerr=[row.spread or 0 for row in own],
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                capsize=3,
                label=variant,
            )
        shares = sorted({100 * row.fraction for row in rows})
        axes.set(xscale="log", xlabel="training data (%)", ylabel=rows[0].metric)
        axes.set_title(title or Path(folder).resolve().name)
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.grid(alpha=0.3)
        axes.legend()
