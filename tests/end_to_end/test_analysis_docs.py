"""docs/analysis.md shows existing commands, and the program that updates its outputs changes nothing else."""

import runpy
from pathlib import Path

import pytest

from elmo.cli import main

ROOT = Path(__file__).parents[2]


PROGRAM = runpy.run_path(str(ROOT / "benchmarks" / "analysis.py"))
find_commands, refresh, split = (PROGRAM[name] for name in ("find_commands", "refresh", "split"))


def test_every_option_of_the_page_exists(capsys):
    commands = find_commands((ROOT / "docs/analysis.md").read_text(encoding="utf-8"))
    kinds = {tuple(split(command)[:2]) for command in commands}
    assert kinds > {("elmo", name) for name in ("neighbors", "probe", "senses", "plot")}
    for command in commands:
        program, *arguments = split(command)
        if program == "elmo":  # options are read before help is shown
            assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
        else:
            assert (ROOT / arguments[0]).is_file()


@pytest.mark.parametrize("page", ["docs/analysis.md", "README.md", "README.zh-CN.md"])
def test_outputs_are_shown(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [command for command in find_commands(text) if f"$ {command}\n```" in text] == []


def test_only_outputs_change():
    first, second = "elmo a \\\n    MODEL", "elmo b"
    page = f"# Page\n```console\n$ {first}\nold\nolder\n$ {second}\n```\n```console\n$ elmo c\nkept\n```\nend\n"
    assert find_commands(page) == [first, second] and split(first) == ["elmo", "a", "MODEL"]
    assert refresh(page, {}) == page
    once = refresh(page, {first: "new\n"})
    assert once == page.replace("old\nolder\n", "new\n")
    assert refresh(once, {second: "more\n\n| a |\n"}) == once.replace("$ elmo b\n", "$ elmo b\nmore\n\n| a |\n")
