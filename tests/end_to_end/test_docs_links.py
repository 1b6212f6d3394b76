"""README and docs/: links point to existing files and headings, and shown commands have their options."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from elmo.cli import main

from .doc_pages import BLOCK

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("recipes/*/README.md")]
LINK = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
HTML_LINK = re.compile(r'href="(?P<path>\.\./[\w./-]+)\.html(?:#(?P<anchor>[\w.-]+))?"')
HEADING = re.compile(r"^#{1,6} +(?P<title>.*?)(?: *\{#(?P<id>[^}]+)\})?$", re.MULTILINE)
OBJECT = re.compile(r"^::: (?P<id>[\w.]+)$", re.MULTILINE)  # documented by its docstring
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@cache
def list_anchors(page: Path) -> set[str]:
    """Return what can follow # in a link to a page, on GitHub and on the site."""
    text = page.read_text(encoding="utf-8")
    anchors = {found["id"] for found in OBJECT.finditer(text)}
    for found in HEADING.finditer(BLOCK.sub("", text)):
        words = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found["title"])).strip().lower()
        anchors.add(found["id"] or re.sub(r"\s", "-", words))
    return anchors


def find_target(page: Path, path: str) -> Path:
    """Return the file that a link means; from a Chinese page, the Chinese one if there is one."""
    target = (page.parent / path).resolve() if path else page
    chinese = target.with_suffix(".zh.md")
    return chinese if page.name.endswith(".zh.md") and path and chinese.is_file() else target


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files_and_headings(name):
    page = ROOT / name
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for found in LINK.finditer(text):
        target = find_target(page, found["path"])
        assert target.exists(), f"{name} links to {found['path']}"
        if found["anchor"]:
            assert found["anchor"] in list_anchors(target), f"{name} links to {found[0]}"
    for found in HTML_LINK.finditer(text):  # of a Chinese page to an English one: ../tasks.html is docs/tasks.md
        target = ROOT / "docs" / f"{found['path'].lstrip('./')}.md"
        assert target.is_file(), f"{name} links to {found[0]}"
        assert not found["anchor"] or found["anchor"] in list_anchors(target), f"{name} links to {found[0]}"


def test_a_missing_heading_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `title`: with γ\n\n## 标题 {#title}\n\n```text\n# no heading\n```\n", encoding="utf-8")
    assert list_anchors(page) == {"a-title-with-γ", "title"}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("docs/")])
def test_commands_of_the_pages_exist(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for found in BLOCK.finditer((ROOT / name).read_text(encoding="utf-8")):
        if found["info"].split(" ")[0] != "bash":
            continue
        for line in found["code"].replace("\\\n", " ").splitlines():
            command = re.search(r"(?:^|\| *)(elmo .*)", line.strip())
            if command is not None:
                _, *arguments = shlex.split(command[1], comments=True)
                # Options are read before help is shown.
                assert main([*arguments, "--help"]) == 0, f"{name}: {line}: {capsys.readouterr().err}"
