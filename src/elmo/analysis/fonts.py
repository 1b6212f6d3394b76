"""The characters of a picture -> fonts that have them all, found among those of the machine."""

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from elmo.errors import InputError

logger = logging.getLogger(__name__)

FIRST_FONT = "DejaVu Sans"  # comes with matplotlib
# Tried before all others, for they are made to be read in running text.
PREFERRED = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "Hiragino Sans GB", "SimHei", "Noto Sans CJK JP",
    "Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic",
    "Noto Sans", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji",
    "Arial Unicode MS", "Unifont", "FreeSans",
)  # fmt: skip

_PICTURES_OF_MISSING = "Last Resort"  # has a sign for every character, and it is not that character


def choose_fonts(texts: Iterable[str], given: Path | None = None) -> list[str]:
    """Give the names of fonts that together have every character, the plain one first.

    A font file that is `given` comes before it. What no font has is told in a warning.
    """
    from matplotlib import font_manager

    missing = {character for text in texts for character in text if not character.isspace()}
    chosen = []
    if given is not None:
        missing -= _characters(str(given))
        chosen.append(_add_font(given))
    plain = font_manager.findfont(FIRST_FONT, fallback_to_default=True)
    missing -= _characters(plain)
    chosen.append(font_manager.FontProperties(fname=plain).get_name())
    for name, path in _other_fonts() if missing else ():
        if not missing:
            break
        found = missing & _characters(path)
        if found:
            _register(path)
            chosen.append(name)
            missing -= found
    if missing:
        shown = " ".join(sorted(missing)[:10])
        logger.warning(
            "No font of this machine has the characters %s%s, so boxes are drawn in their place; install one that "
            "has them (fonts-noto-cjk for Chinese), or give its file with --font.",
            shown, " …" if len(missing) > 10 else "",
        )  # fmt: skip
    return chosen


def _other_fonts() -> Iterator[tuple[str, str]]:
    """Give name and file of each font, the preferred ones first; of several files of a name the plain one."""
    from matplotlib import font_manager

    listed: dict[str, str] = {}
    entries = list(font_manager.fontManager.ttflist)
    known = {entry.fname for entry in entries}
    # Fonts that were installed after matplotlib made its list are not in it.
    entries += filter(None, map(_read_entry, sorted(set(font_manager.findSystemFonts()) - known)))
    for entry in entries:
        is_plain = entry.style == "normal" and entry.weight in (400, "normal", "regular", "book")
        if is_plain or entry.name not in listed:
            listed[entry.name] = entry.fname
    for name in PREFERRED:
        if name in listed:
            yield name, listed[name]
    for name, path in sorted(listed.items()):
        if name not in (*PREFERRED, FIRST_FONT) and not name.startswith(_PICTURES_OF_MISSING):
            yield name, path


@cache
def _read_entry(path: str) -> Any:
    from matplotlib.font_manager import ttfFontProperty
    from matplotlib.ft2font import FT2Font

    try:
        return ttfFontProperty(FT2Font(path))
    except (OSError, RuntimeError, NotImplementedError):
        return None  # no font, or one that cannot be drawn


def _add_font(path: Path) -> str:
    from matplotlib import font_manager

    try:
        _register(str(path))
        return str(font_manager.FontProperties(fname=str(path)).get_name())
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path} is no font that can be read; give a .ttf, .otf or .ttc file.") from error


def _register(path: str) -> None:
    from matplotlib import font_manager

    if all(entry.fname != path for entry in font_manager.fontManager.ttflist):
        font_manager.fontManager.addfont(path)


@cache
def _characters(path: str) -> Any:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
