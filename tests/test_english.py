"""The code and its pages are written in the plain English of the field."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "elmo").rglob("*.py"))
TEXTS = [*SOURCES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# What was written once -> what to write instead.
PHRASES = {
    r"not to be had": "not available",
    r"cannot be prepared so\b": "invalid prepare settings",
    r"holds? half a character": "contains a lone surrogate",
    r"other bytes than": "checksum mismatch",
    r"not of one save": "come from different saves",
    r"not seen by itself": "if it cannot be detected",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"of one descent": "fine-tuned from a common ancestor",
    r"Of everything random": "Random seed.",
    r"At most so many\.": "Maximum number of …",
    r"That may wait\.": "Maximum number of queued …",
    r"\btelling_damage\b|\b(taking|giving)\(\)": "reraise_as_damaged, request_docs, response_docs",
    r"\b(is|are|was|were) told\b": "is reported",
    r"\banew\b": "again",
    r"\bbesides\b": "in addition to",
    r"\ba word that is meant\b|\bwords? (that is|are) meant\b": "the marked word",
    r"\bgoes on\b|\bgo on with\b|\bto go on\b": "continues, resume",
    r"\bone (row|line|vector|word|sentence|object) a (word|line|sentence|row|direction)\b": "one row per word",
}


def list_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def test_no_docstring_begins_with_give():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {text.splitlines()[0]}"
        for path in SOURCES
        for number, text in list_docstrings(path)
        if re.match(r"Gives?\b", text)
    ]
    assert found == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_words_of_the_field_are_used(phrase):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()} (better: {PHRASES[phrase]})"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(phrase, line)
    ]
    assert found == []
