"""The language of messages and figures: English in the source, Chinese in chinese.json.

ELMO_LANG or else the locale selects it: zh is Simplified Chinese, everything else English. The keys of the
catalog are the English texts, with {} for each value; a text without an entry stays English.
"""

import functools
import json
import locale
import os
import re
import sys
from pathlib import Path
from typing import Literal

CATALOG = Path(__file__).with_name("chinese.json")
VARIABLES = ("ELMO_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def current_language() -> Literal["en", "zh"]:
    """Return the language that the environment asks for."""
    name = next((value for variable in VARIABLES if (value := os.environ.get(variable))), "")
    if not name and sys.platform == "win32":
        name = locale.getlocale()[0] or ""
    return "zh" if name.lower().startswith(("zh", "chinese")) else "en"


def translate(text: str) -> str:
    """Return a text in the current language, or unchanged if it has no translation."""
    if current_language() == "en":
        return text
    catalog = read_catalog()
    if text in catalog:
        return catalog[text]
    for pattern, translation in _list_patterns():
        if match := pattern.fullmatch(text):
            return translation.format(*map(_translate_value, match.groups()))
    return text


def _translate_value(value: str) -> str:
    """Translate a value with an entry in the catalog, such as advice after a semicolon, but not a single word."""
    head, mark, text = value.rpartition("; ")
    known = read_catalog().get(text) if " " in text else None
    return value if known is None else f"{head}{'；' if mark else ''}{known}"


@functools.cache
def read_catalog() -> dict[str, str]:
    """Return the Chinese translation of each English text."""
    catalog: dict[str, str] = json.loads(CATALOG.read_text(encoding="utf-8"))
    return catalog


@functools.cache
def _list_patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return a pattern and a translation for each text with values, the longest texts first."""

    entries = sorted(read_catalog().items(), key=lambda entry: -len(entry[0]))
    return [
        (re.compile("(.*?)".join(map(re.escape, text.split("{}"))), re.DOTALL), translation)
        for text, translation in entries
        if "{}" in text
    ]
