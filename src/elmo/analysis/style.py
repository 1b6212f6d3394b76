"""The style of plots: palette and fonts; plots are written as .png or .svg files."""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import atomic_write, check_parent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

# The palette of Okabe and Ito, which color-blind readers can distinguish; its light colors are darkened, so that text
# in them is readable on white. Markers differ too.
COLORS = ("#0072B2", "#D55E00", "#008F68", "#B5578F", "#B07700", "#3D9BD1", "#1F2328", "#8A7F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, SOFT_INK = "#1F2328", "#59636E"
_SUFFIXES = (".png", ".svg")
_STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.titlelocation": "left",
    "axes.labelcolor": SOFT_INK,
    "axes.unicode_minus": False,
    "ytick.color": "#B6BEC6",
    "xtick.labelcolor": SOFT_INK,
    "ytick.labelcolor": SOFT_INK,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a $ is plain text
}
_FONT = "DejaVu Sans"  # comes with matplotlib
# Fonts with Chinese, Japanese and Korean characters on Linux, macOS and Windows. matplotlib only loads the first font
# of a collection (.ttc), which is the Japanese font in Noto Sans CJK.
_CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC", "Hiragino Sans GB", "Heiti TC", "Arial Unicode MS",
    "Microsoft YaHei", "SimHei", "Noto Sans CJK KR", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic",
    "Noto Sans JP", "Yu Gothic",
)  # fmt: skip


def check_output(output: str | Path) -> Path:
    """Return the path of a plot to write; raise an error now if it could not be written later."""
    require("matplotlib", "plot", "Drawing")
    path = Path(output)
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path} should end in .png or .svg; pictures are written in these formats.")
    check_parent(path)
    return path


@contextmanager
def drawing(output: str | Path, size: tuple[float, float]) -> Iterator["Figure"]:
    """Yield a figure of a size in inches, which is written to `output` at the end.

    Characters missing from all fonts are reported in one warning.
    """
    path = check_output(output)
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {**_STYLE, "font.family": list_fonts()}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        with atomic_write(path.resolve()) as temporary, warnings.catch_warnings(record=True) as messages:
            warnings.filterwarnings("always", "Glyph .* missing from")
            figure.savefig(temporary, dpi=150, format=path.suffix.lower()[1:])
    codes = {int(match[1]) for message in messages if (match := re.match(r"Glyph (\d+) ", str(message.message)))}
    if codes:
        shown = " ".join(map(chr, sorted(codes)[:10])) + (" …" if len(codes) > 10 else "")
        logger.warning(
            "No font on this machine has the characters %s, so boxes are drawn instead; install a font that has "
            "them (fonts-noto-cjk for Chinese) and delete the list of fonts in %s.", shown, matplotlib.get_cachedir(),
        )  # fmt: skip


def list_fonts() -> list[str]:
    """Return the font families to draw with; matplotlib takes each character from the first that has it."""
    from matplotlib.font_manager import fontManager

    installed = {entry.name for entry in fontManager.ttflist}
    return [_FONT, *(name for name in _CJK_FONTS if name in installed)]
