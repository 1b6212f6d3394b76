"""What all pictures share: colours, fonts, and a file that is whole or not there."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.analysis.fonts import choose_fonts
from elmo.errors import ConfigError, InputError
from elmo.files.durable import writing_aside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The Okabe-Ito palette: told apart by colour-blind readers too. Markers tell apart where colours do not.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A900")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#999999"
ENDINGS = (".png", ".svg")


def check_output(output: str | Path) -> Path:
    """Refuse a name that is no picture, before any work is done."""
    path = Path(output)
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} should end in .png or .svg; these are the pictures that can be drawn.")
    if not path.resolve().parent.is_dir():
        raise InputError(f"There is no folder {path.resolve().parent} to write {path.name} to; make it first.")
    return path


def require_matplotlib() -> None:
    """Say how to get matplotlib where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError("Drawing needs matplotlib: pip install 'modern-elmo[plot]'.") from error


@contextmanager
def drawing(
    output: str | Path, size: tuple[float, float], texts: Iterable[str] = (), *, font: Path | None = None
) -> Iterator["Figure"]:
    """Give a figure of a size in inches that becomes the picture at the end; `texts` are all it will show."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    path = check_output(output)
    settings: dict[Any, Any] = {
        "font.size": 11,
        "font.family": choose_fonts(texts, font),
        "svg.fonttype": "none",  # text stays text
        "axes.unicode_minus": False,
        "text.parse_math": False,  # a $ is a word like any other
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # told already, once for all
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        with writing_aside(path.resolve()) as aside:
            figure.savefig(aside, dpi=150, format=path.suffix.lower()[1:])
