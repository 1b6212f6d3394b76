"""A model -> what a visitor of the page should know about it: its card, its size, where it can be opened from."""

import re
from pathlib import Path

from elmo.checkpoint.derived import license_of
from elmo.checkpoint.source import DEFAULT_MODEL, DEFAULT_NAME
from elmo.model import Elmo
from elmo.serve.schemas import ModelCard

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
    config = elmo.config
    return ModelCard(
        language=language[1] if language else _guess_language(elmo),
        license=license_of(card),
        summary=_first_paragraph(body),
        training=_training_paragraph(body),
        encoder=config.encoder.kind,
        reads="characters" if config.characters is not None else "words",
        num_parameters=sum(parameter.numel() for parameter in elmo.bilm.parameters()),
        num_words=None if elmo.vocabulary is None else len(elmo.vocabulary.words),
    )


def public_source(source: str | None) -> str | None:
    """Return what others can open the model by: an alias or a hub id, but no path of this machine."""
    if source is None:
        return None
    if source == str(DEFAULT_MODEL):
        return DEFAULT_NAME
    return None if Path(source).exists() else source


def _guess_language(elmo: Elmo) -> str | None:
    scripts = elmo.scripts.learned or frozenset()
    return next((language for script, language in _SCRIPT_LANGUAGES.items() if script in scripts), None)


def _first_paragraph(text: str) -> str | None:
    """Return the first paragraph that is prose, in one line and without the marks of Markdown."""
    for paragraph in re.split(r"\n\s*\n", _HEADING.sub("\n", text)):
        if paragraph.strip() and not re.match(r"\s*[|!<>`-]", paragraph):
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return re.sub(r"[`*]", "", plain)
    return None


def _training_paragraph(body: str) -> str | None:
    sections = re.split(r"^(#+ .*)$", body, flags=re.MULTILINE)[1:]
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        if "train" in heading.lower() and (found := _first_paragraph(text)) is not None:
            return found
    return None
