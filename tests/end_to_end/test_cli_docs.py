"""docs/cli.md shows the actual output: every block is run in a folder."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo import Elmo
from elmo.cli import main

from .doc_pages import Section, read_sections

INTRODUCTION, *SECTIONS = read_sections("cli.md")


def read_console(block: str) -> Iterator[tuple[list[str], str]]:
    """Return each command of a console block and what is shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield shlex.split(command), shown


def run(command: list[str], shown: str) -> None:
    if command[0] == "cat":  # a file the reader has; it comes into being by being shown
        Path(command[1]).write_text(shown, encoding="utf-8")
        return
    assert command[0] == "elmo", command
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        code = main(command[1:])
    terminal.flush()
    printed = terminal.buffer.getvalue().decode("utf-8")
    # An ellipsis stands for what depends on the machine or would fill the page; alone on a line, for lines.
    pattern = re.sub(r"(?m)^(\\ )*…\\?\n", "(?:.*\\\\n)*", re.escape(shown)).replace("…", ".*")
    shown_or_like_it = re.fullmatch(pattern, printed)
    assert (code, bool(shown_or_like_it)) == (0, True), f"{shlex.join(command)} prints\n{printed}"


def run_blocks(section: Section) -> None:
    names: dict[str, object] = {}
    for info, code in section.blocks():
        if info == "console":
            for command, shown in read_console(code):
                run(command, shown)
        else:
            assert info == "python", info
            exec(compile(code, "docs/cli.md", "exec"), names)


@pytest.fixture(scope="module")
def wiki(original_vectors: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained language model of the page, from the checkpoint of the original program."""
    pytest.importorskip("tensorflow", reason="the extra modern-elmo[tensorflow] is not installed")
    folder = tmp_path_factory.mktemp("models") / "wiki"
    Elmo.from_pretrained(original_vectors / "tf-checkpoint", format="tensorflow").save_pretrained(folder)
    return folder


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_outputs_on_the_page_match_the_program(section, request, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(INTRODUCTION)
    if any("wiki" in code for _, code in section.blocks()):
        Path("wiki").symlink_to(request.getfixturevalue("wiki"))
        Path("heldout.txt").symlink_to(request.getfixturevalue("original_vectors") / "tf-checkpoint/heldout.txt")
    run_blocks(section)


def test_every_section_shows_its_command():
    for section in SECTIONS:
        command = re.match(r"`elmo (\w+)`", section.title)
        assert command, section.title
        assert any(code.startswith("$ ") and f"$ elmo {command[1]} " in code for _, code in section.blocks())
