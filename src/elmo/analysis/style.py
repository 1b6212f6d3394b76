"""One style for everything that is drawn: palette, fonts, labels that do not cross, and writing the file.

Enters: what to show, in inches and texts. Leaves: a .png or .svg file. What is drawn is decided by pictures.py,
similarity.py, word_map.py and the scripts of benchmarks/ and docs/.
"""

import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import atomic_write
from elmo.language import current_language, translate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

logger = logging.getLogger(__name__)

# The hues of Okabe and Ito, which colour-blind readers can tell apart; the light ones are darker, so that text in
# them can be read on white. Markers differ too.
COLOURS = ("#0072B2", "#D55E00", "#008F68", "#B5578F", "#B07700", "#3D9BD1", "#1F2328", "#8A7F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#999999"
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
_NOT_PLAIN = re.compile(r"bold|italic|oblique|light|thin|black|medium|condensed|mono", re.IGNORECASE)


def check_output(output: str | Path) -> Path:
    """Return the path of a picture to write; InputError, before any work is done, if it cannot be one."""
    path = Path(output)
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} should end in .png or .svg; pictures are written in these formats.")
    if not path.resolve().parent.is_dir():
        raise InputError(f"There is no folder {path.resolve().parent} to write {path.name} to; create it first.")
    return path


def require_matplotlib() -> None:
    """Raise ConfigError with the extra to install if matplotlib is missing."""
    require("matplotlib", "plot", "Drawing")


@contextmanager
def drawing(
    output: str | Path, size: tuple[float, float], texts: Iterable[str] = (), *, font: Path | None = None
) -> Iterator["Figure"]:
    """Yield a figure of a size in inches, which is written to `output` at the end; `texts` are all it shows."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    path = check_output(output)
    texts = [*texts, *([] if current_language() == "en" else ["图层用例句词训练"])]
    style: dict[Any, Any] = {**_STYLE, "font.family": choose_fonts(texts, font)}
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
    """Return the colours of ordered values: white to the dark blue of the palette."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("elmo", ["#FFFFFF", "#BFDDEE", COLOURS[5], COLOURS[0], "#00324F"])


def ink_on(colour: npt.NDArray[Any]) -> str:
    """Return black or white, whichever is readable on a colour."""
    red, green, blue = colour[:3]
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else "white"


def place_labels(
    axes: "Axes", points: npt.NDArray[Any], texts: Sequence[str], colours: Sequence[str], *, size: float = 9
) -> "list[Annotation]":
    """Write a label beside each point (N, 2), where it covers neither another label nor, if possible, a point.

    Places are tried from near to far, to the sides first; a label that had to move away gets a thin line.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    axes.figure.draw_without_rendering()  # type: ignore[union-attr]  # the layout decides where points are
    renderer = axes.figure._get_renderer()  # type: ignore[union-attr]
    at = axes.transData.transform(points)
    frame = axes.get_window_extent(renderer)
    pixels = axes.figure.dpi / 72
    placed: list[Bbox] = []
    labels = []
    for text, colour, point in zip(texts, colours, points, strict=True):
        label = axes.annotate(
            text, (float(point[0]), float(point[1])), xytext=(0, 0), textcoords="offset points", fontsize=size,
            fontweight="bold", color=colour, ha="center", va="center", zorder=4,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip
        box = label.get_window_extent(renderer)
        centre = axes.transData.transform(point)
        best: tuple[float, tuple[float, float], Bbox] | None = None
        for distance in (7.0, 13.0, 21.0, 32.0, 46.0):
            for angle in np.pi * np.array([0.2, -0.2, 0.8, -0.8, 0.5, -0.5, 0.0, 1.0]):
                x = np.cos(angle) * (distance + box.width / 2 / pixels)
                y = np.sin(angle) * (distance + box.height / 2 / pixels)
                moved = Bbox.from_bounds(
                    centre[0] + x * pixels - box.width / 2, centre[1] + y * pixels - box.height / 2,
                    box.width, box.height,
                )  # fmt: skip
                covered = sum(moved.padded(2).overlaps(other) for other in placed)
                points_covered = int(sum(moved.padded(1).contains(*each) for each in at))
                outside = not (frame.contains(*moved.min) and frame.contains(*moved.max))
                cost = 1000 * covered + 40 * outside + 15 * points_covered + distance
                if best is None or cost < best[0]:
                    best = cost, (float(x), float(y)), moved
        assert best is not None
        _, offset, moved = best
        label.set_position(offset)
        if np.hypot(*offset) > 30 + box.width / 2 / pixels:
            line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "alpha": 0.6}
            axes.annotate("", point, xytext=offset, textcoords="offset points", arrowprops=line, zorder=3)
        placed.append(moved)
        labels.append(label)
    return labels


def choose_fonts(texts: Iterable[str], given: Path | None = None) -> list[str]:
    """Return font families that together have every character; matplotlib falls back from one to the next.

    A font file that is `given` comes first. Characters that no installed font has are reported in one warning.
    """
    from matplotlib import font_manager

    missing = {character for text in texts for character in text if not character.isspace()}
    chosen = [] if given is None else [_add_font(given)]
    if given is not None:
        missing -= _characters(str(given))
    missing -= _characters(font_manager.findfont(_FONT))
    chosen.append(_FONT)
    for path in _list_fonts() if missing else ():
        if found := missing & _characters(path):
            chosen.append(_add_font(Path(path)))
            missing -= found
    if missing:
        shown = " ".join(sorted(missing)[:10]) + (" …" if len(missing) > 10 else "")
        logger.warning(
            "No font on this machine has the characters %s, so boxes are drawn instead; install a font that has "
            "them (fonts-noto-cjk for Chinese), or name a font file with --font.", shown,
        )  # fmt: skip
    return chosen


def _list_fonts() -> list[str]:
    """Return the installed font files, also those newer than matplotlib's cache, plain sans-serif ones first."""
    from matplotlib import font_manager

    def rank(path: str) -> tuple[bool, bool, str]:
        name = Path(path).stem
        return bool(_NOT_PLAIN.search(name)), not re.search(r"sans|hei|gothic|pingfang", name, re.IGNORECASE), path

    # Last Resort has a sign for every character, and it is not that character.
    return sorted((path for path in font_manager.findSystemFonts() if "LastResort" not in path), key=rank)


def _add_font(path: Path) -> str:
    from matplotlib import font_manager

    try:
        if all(entry.fname != str(path) for entry in font_manager.fontManager.ttflist):
            font_manager.fontManager.addfont(path)
        names = [entry.name for entry in font_manager.fontManager.ttflist if entry.fname == str(path)]
        # A collection has one face per region; characters that they share are drawn as in mainland China.
        simplified = (name for name in names if name.endswith(" SC"))
        return next(simplified, str(font_manager.FontProperties(fname=path).get_name()))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path} is not a readable font; give a .ttf, .otf or .ttc file.") from error


@cache
def _characters(path: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError, NotImplementedError):
        return frozenset()
