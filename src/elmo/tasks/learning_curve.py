"""The rows of a comparison -> a picture: the score of each variant over the share of the training data."""

from collections.abc import Sequence
from pathlib import Path

from elmo.errors import ConfigError
from elmo.tasks.compare import Row

# The Okabe-Ito palette: told apart by colour-blind readers too.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vPX"


def draw_learning_curve(rows: Sequence[Row], output: Path, title: str) -> None:
    """Draw the curves to a PNG or SVG file."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError("Drawing needs matplotlib: pip install 'modern-elmo[plot]'.") from error
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 11, "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.5, 4.2), layout="constrained")
        axes = figure.subplots()
        for number, variant in enumerate(dict.fromkeys(row.variant for row in rows)):
            own = sorted((row for row in rows if row.variant == variant), key=lambda row: row.fraction)
            axes.errorbar(
                [100 * row.fraction for row in own],
                [row.mean for row in own],
                yerr=[row.spread or 0 for row in own],
                color=_COLOURS[number % len(_COLOURS)],
                marker=_MARKERS[number % len(_MARKERS)],
                capsize=3,
                label=variant,
            )
        shares = sorted({100 * row.fraction for row in rows})
        axes.set(xscale="log", xlabel="training data (%)", ylabel=rows[0].metric, title=title)
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.grid(alpha=0.3)
        axes.legend()
        aside = output.with_name(f".{output.name}.aside{output.suffix}")
        figure.savefig(aside, dpi=150)
        aside.replace(output)
