"""The card (README.md) and the configuration of a model -> what the page says about it."""

import re

from elmo.checkpoint.derived import license_of
from elmo.model import Elmo
from elmo.serve.schemas import ModelCard
from elmo.text.units import count_scripts

_FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
_LANGUAGE = re.compile(r"^language:\s*(?:\n\s*-\s*)?['\"]?([\w-]+)", re.MULTILINE)
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_SCRIPT_LANGUAGES = {"Han": "zh", "Latin": "en"}  # examples in these languages come with the page


def describe_card(elmo: Elmo) -> ModelCard:
    """Return the facts of a model; what its card does not say is None."""
    card = elmo.checkpoint().card
    front = _FRONT_MATTER.match(card or "")
    language = _LANGUAGE.search(front[0]) if front else None
    body = (card or "")[front.end() if front else 0 :]
    return ModelCard(
        language=language[1] if language else _guess_language(elmo),
        license=license_of(card),
        summary=_first_paragraph(body),
        summary_zh=_first_paragraph(body, is_chinese=True),
        reads="characters" if elmo.config.characters is not None else "words",
        num_words=None if elmo.vocabulary is None else len(elmo.vocabulary.words),
    )


def _guess_language(elmo: Elmo) -> str | None:
    scripts = elmo.scripts.learned or frozenset()
    return next((language for script, language in _SCRIPT_LANGUAGES.items() if script in scripts), None)


def _first_paragraph(text: str, *, is_chinese: bool = False) -> str | None:
    """Return the first paragraph that is prose, in one line and without the marks of Markdown.

    `is_chinese` asks for the first one whose letters are mostly Chinese characters.
    """
    for paragraph in re.split(r"\n\s*\n", _HEADING.sub("\n", text)):
        counts = count_scripts([paragraph])
        if is_chinese and 2 * counts["Han"] <= counts.total():
            continue
        if paragraph.strip() and not re.match(r"\s*[|!<>`-]", paragraph):
            # Chinese has no spaces, also not where a line ends.
            joined = re.sub(r"(?<=[^\x00-\xff])\n(?=[^\x00-\xff])", "", paragraph.strip())
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(joined.split()))
            return re.sub(r"[`*]", "", plain)
    return None
