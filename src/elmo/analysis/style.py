"""One style for everything that is drawn: palette, fonts, and writing the .png or .svg file."""

import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import atomic_write
from elmo.language import current_language, translate

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry

logger = logging.getLogger(__name__)

# The hues of Okabe and Ito, which color-blind readers can tell apart; the light ones are darker, so that text in
# them can be read on white. Markers differ too.
COLORS = ("#0072B2", "#D55E00", "#008F68", "#B5578F", "#B07700", "#3D9BD1", "#1F2328", "#8A7F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ENDINGS = (".png", ".svg")
INK, SOFT_INK = "#1F2328", "#59636E"
_STYLE: dict[str, Any] = {
    "font.size": 11,
    "text.color": INK,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelcolor": SOFT_INK,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#B6BEC6",
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "xtick.color": "#B6BEC6",
    "ytick.color": "#B6BEC6",
    "xtick.labelcolor": SOFT_INK,
    "ytick.labelcolor": SOFT_INK,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "grid.color": "#E6E9EC",
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a $ is a word like any other
}
_FONT = "DejaVu Sans"  # comes with matplotlib


def check_output(output: str | Path) -> Path:
    """Return the path of a picture to write; an error, before any work is done, if it cannot be drawn."""
    require("matplotlib", "plot", "Drawing")
    path = Path(output)
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} should end in .png or .svg; pictures are written in these formats.")
    if not path.resolve().parent.is_dir():
        raise InputError(f"The folder of {path} does not exist; create it first.")
    return path


@contextmanager
def drawing(output: str | Path, size: tuple[float, float], texts: Iterable[str] = ()) -> Iterator["Figure"]:
    """Yield a figure of a size in inches, which is written to `output` at the end; `texts` are all it shows."""
    path = check_output(output)
    import matplotlib
    from matplotlib.figure import Figure

    texts = [*texts, *([] if current_language() == "en" else ["图层用例句词训练"])]
    style: dict[Any, Any] = {**_STYLE, "font.family": choose_fonts(texts)}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # choose_fonts has reported them
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        _translate_titles(figure)
        with atomic_write(path.resolve()) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix.lower()[1:])


def _translate_titles(figure: "Figure") -> None:
    """Put titles, names of axes and legends into the user's language; words of texts stay as they are."""
    from matplotlib.text import Text

    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    parts = [figure, *(part for axes in figure.axes for part in (axes, axes.xaxis, axes.yaxis))]
    own = [child for part in parts for child in vars(part).values() if isinstance(child, Text)]
    for text in [*own, *(text for legend in legends if legend for text in legend.get_texts())]:
        text.set_text(translate(text.get_text()))


def shades() -> "Colormap":
    """Return the colors of ordered values: white to the dark blue of the palette."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("elmo", ["#FFFFFF", "#BFDDEE", COLORS[5], COLORS[0], "#00324F"])


def ink_on(color: npt.NDArray[Any]) -> str:
    """Return black or white, whichever is readable on a color."""
    red, green, blue = color[:3]
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else "white"


def choose_fonts(texts: Iterable[str]) -> list[str]:
    """Return font families that together have every character; matplotlib falls back from one to the next.

    Characters that no font has are reported in one warning.
    """
    from matplotlib import font_manager

    missing = {character for text in texts for character in text if not character.isspace()}
    missing -= _list_characters(font_manager.findfont(_FONT))
    families = [_FONT]
    for entry in sorted(font_manager.fontManager.ttflist, key=_rank_font):
        if missing and (covered := missing & _list_characters(entry.fname)):
            families.append(entry.name)
            missing -= covered
    if missing:
        shown = " ".join(sorted(missing)[:10]) + (" …" if len(missing) > 10 else "")
        logger.warning(
            "No font on this machine has the characters %s, so boxes are drawn instead; install a font that has "
            "them (fonts-noto-cjk for Chinese).", shown,
        )  # fmt: skip
    return families


def _rank_font(entry: "FontEntry") -> tuple[bool, ...]:
    """Return a key that sorts plain sans-serif fonts first, those for mainland China before those of other regions."""
    is_plain = entry.style == "normal" and entry.weight in (400, "normal") and entry.stretch == "normal"
    is_sans = re.search(r"sans|hei|gothic|pingfang", entry.name, re.IGNORECASE) is not None
    # Last Resort has a sign for every character, and it is not that character.
    is_odd = "Mono" in entry.name or "LastResort" in entry.fname
    return is_odd, not is_plain, not is_sans, not entry.name.endswith(" SC")


@cache
def _list_characters(path: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))
