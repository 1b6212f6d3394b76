"""The README: both languages show the same code, and the Python code runs."""

import ast
import itertools
import re
import shlex
from pathlib import Path

import pytest

from elmo.cli import main

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[tuple[str, str]]:
    return [(match["info"], match["code"]) for match in BLOCK.finditer((ROOT / name).read_text(encoding="utf-8"))]


def test_the_two_readmes_show_the_same_code():
    assert blocks("README.md") == blocks("README.zh-CN.md")


@pytest.mark.parametrize("what", ["main", "test"])
def test_both_readmes_mark_the_commands_of_a_newcomer(what):
    for name in ("README.md", "README.zh-CN.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.search(rf"<!-- newcomer: {what} -->\n```bash\n.*(?:pip install|pytest).*\n```", text), name


def test_readme_outputs_match_the_commands(capsys):
    shown = [
        (command, output)
        for (_, command), (info, output) in itertools.pairwise(blocks("README.md"))
        if info == "text" and "elmo similarity" in command
    ]
    assert len(shown) == 2  # English and Chinese
    for command, output in shown:
        asked = shlex.split(command[command.index("elmo similarity") :])
        assert main(asked[1:]) == 0
        assert capsys.readouterr().out == output


PYTHON_BLOCKS = [code for info, code in blocks("README.md") if info == "python"]


@pytest.mark.parametrize("code", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_the_python_of_the_readme_runs(code):
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    for line in code.splitlines():
        if said := re.match(r"(?:print\()?(\w+)[ .].*# .*?(\(\d+(?:, \d+)+\))", line):
            assert names[said[1]].shape == ast.literal_eval(said[2]), line


def test_every_local_link_leads_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
