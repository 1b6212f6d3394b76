"""Flags of the release before still work, no flag has two meanings, and help reads like a manual."""

import json
import re

import pytest

from elmo.cli.commands import COMMANDS, RENAMED, translate
from tests.language_models import make_language_model

PAGES = [*COMMANDS, *(f"task {name}" for name in ("train", "evaluate", "predict")),
         *(f"plot {name}" for name in ("similarity", "map", "mixing", "training", "learning"))]  # fmt: skip


@pytest.mark.parametrize("command", PAGES)
def test_help_shows_no_python_types_and_no_old_flag(run, command):
    text = run(*command.split(), "--help").out
    assert not re.search(r"<(str|int|float|path|Path|list\[\w+\]|int range|float range)>|\{[A-Za-z]+\}", text), (
        text
    )
    for old, new in RENAMED.get(command, {}).items():
        assert new in text, new
        assert old in RENAMED[command].values() or not re.search(rf"{old}(?![\w-])", text), old


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("score --words --text a", "score --by-word --text a"),
        ("substitutes a --index=2", "substitutes a --word-index=2"),
        ("neighbors a --words same --layer 1 --index 0", "neighbors a --match same --layers 1 --word-index 0"),
        ("embed a.x --format hdf5 --input-format csv", "embed a.x --model-format hdf5 --format csv"),
        ("embed a.x --format=csv", "embed a.x --format=csv"),
        ("info m --format onnx", "info m --model-format onnx"),
        ("prepare a --field body", "prepare a --column body"),
        ("plot map play --layer top", "plot map play --layers top"),
        ("task train ner --words none", "task train ner --word-features none"),
        ("task predict t --format conll", "task predict t --format conll"),
        ("serve m --index folder", "serve m --index folder"),
        ("score -- --words", "score -- --words"),
        ("", ""),
    ],
)
def test_old_flags_are_translated(given, expected):
    assert translate(given.split()) == expected.split()


def test_an_old_call_gives_what_the_new_one_gives(run, tmp_path):
    make_language_model().save_pretrained(tmp_path / "lm")
    (tmp_path / "text.txt").write_text("I went to the bank\n")
    new = run("evaluate", tmp_path / "text.txt", "--model", tmp_path / "lm", "--json")
    old = run("evaluate", tmp_path / "lm", tmp_path / "text.txt", "--format", "elmo", "--json")
    assert old.code == 0 and json.loads(old.out) == json.loads(new.out)
    two = run("evaluate", tmp_path / "text.txt", tmp_path / "text.txt", "--model", tmp_path / "lm", "--json")
    assert json.loads(two.out)["num_sentences"] == 2


def test_a_shell_gets_completions(run, monkeypatch):
    monkeypatch.setenv("_ELMO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "elmo sub")
    monkeypatch.setenv("COMP_CWORD", "1")
    answer = run()
    assert (answer.code, answer.out.split()) == (0, ["substitutes"])
