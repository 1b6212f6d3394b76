"""The Chinese catalog: no help text is missing, no entry is stale, values stay in place."""

import ast
import inspect
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import elmo
from elmo.cli import main
from elmo.cli.app import app
from elmo.language import VARIABLES, current_language, read_catalog, translate

SOURCES = Path(elmo.__file__).parent
CATALOG = read_catalog()
HAN = re.compile(r"[一-鿿]")


def list_helps() -> Iterator[str]:
    """Yield every text of the help pages: what commands do, and what their options mean."""
    context = app.make_context("elmo", [], resilient_parsing=True)
    yield from ("Usage: ", "Arguments:", "Options:", "Commands:", "required", "default: ")
    yield from _list_of_command(app, context)


def _list_of_command(command: Any, context: Any) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not paragraph.startswith("\b"):
            yield " ".join(paragraph.split())
    for parameter in command.get_params(context):
        yield parameter.help or ""
        shown = getattr(parameter, "show_default", None)
        if isinstance(shown, str) and re.search("[a-z] ", shown):
            yield shown
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from _list_of_command(inner, type(context)(inner, info_name=name, parent=context))


def read_texts(path: Path) -> Iterator[str]:
    """Yield the strings of a source file, with {} for each value."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{[a-z_]*\}|%s", "{}", " ".join(node.value.split()))
        elif isinstance(node, ast.JoinedStr):
            yield "".join("{}" if isinstance(part, ast.FormattedValue) else part.value for part in node.values)


def test_every_help_text_is_translated():
    assert not sorted({text for text in list_helps() if text} - CATALOG.keys())


def test_every_mistake_that_a_command_reports_is_translated():
    missing = set()
    for path in (SOURCES / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("InputError", "say", "translate"):
                values = [value for value in node.args if isinstance(value, ast.Constant | ast.JoinedStr)]
                texts = ("".join(_to_template(value)) for value in values)
                missing |= {text for text in texts if re.search("[a-z]", text.replace("{}", ""))} - CATALOG.keys()
    assert not sorted(missing)


def _to_template(node: ast.expr) -> Iterator[str]:
    for part in node.values if isinstance(node, ast.JoinedStr) else [node]:
        yield part.value if isinstance(part, ast.Constant) else "{}"


def test_no_entry_is_stale():
    ours = {*list_helps()} | {text for path in SOURCES.rglob("*.py") for text in read_texts(path)}
    examples = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCES / "cli").rglob("*.py"))
    clicks = "\n".join(path.read_text(encoding="utf-8") for path in Path(click.__file__).parent.rglob("*.py"))
    stale = []
    for text in CATALOG:
        spellings = {text, " ".join(text.split())}
        if spellings.isdisjoint(ours) and f"  {text}\n" not in examples:
            fixed = [part.strip(" .'()?") for part in text.split("{}")]
            stale += [text] if any(word not in clicks for part in fixed for word in part.split()) else []
    assert not stale


@pytest.mark.parametrize("english", [text for text in CATALOG if "{}" in text])
def test_a_translation_has_the_values_of_its_text(english: str):
    fields = [field for _, field, _, _ in string.Formatter().parse(CATALOG[english]) if field is not None]
    assert len(fields) == english.count("{}")
    assert sorted(fields) in ([""] * len(fields), sorted(map(str, range(len(fields)))))


def test_translations_are_chinese():
    assert not [text for text, chinese in CATALOG.items() if not HAN.search(chinese)]


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"ELMO_LANG": "zh"}, "zh"),
        ({"ELMO_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_environment_chooses_the_language(monkeypatch, environment, language):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert current_language() == language


def test_values_are_filled_in_and_unknown_texts_stay(monkeypatch):
    monkeypatch.setenv("ELMO_LANG", "zh")
    assert (
        translate("'a b.txt' is not a file; name text files, or -, and the model with --model.").count("'a b.txt'") == 1
    )
    assert translate("a text without an entry") == "a text without an entry"


def test_help_and_mistakes_are_chinese(monkeypatch, capsys):
    monkeypatch.setenv("ELMO_LANG", "zh")
    assert main(["similarity", "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("用法：") and "选项：" in page
    assert not [line for line in page.splitlines() if sum(2 if HAN.match(letter) else 1 for letter in line) > 100]
    for mistake in (["embde"], ["similarity"], ["embed", "--txt", "I"], ["embed", ""], ["senses"]):
        assert main(mistake) == 2
        assert HAN.search(capsys.readouterr().err), mistake
