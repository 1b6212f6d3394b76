"""A page of docs/ with code that is run, such as a tutorial: its blocks run in order, and what they print.

python -m tests.end_to_end.tutorials PAGE ... runs pages in temporary folders and writes the outputs they have now
into them, in both languages; read them before you commit.
"""

import contextlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.cli import main

from .doc_pages import BLOCK, DOCS

TUTORIALS = ("vectors", "task", "model", "distil", "serve")
PAGES = (*(f"tutorials/{name}" for name in TUTORIALS), "how-elmo-works", "index")
TEST = re.compile(r"^<!-- test: (?P<code>.*?) -->$", re.MULTILINE | re.DOTALL)
PORT = "8600"


@dataclass(frozen=True)
class Step:
    """A block of code or a hidden test, with the output that the page shows below it."""

    kind: str  # python, console, bash background, test
    code: str
    shown: str | None = None
    is_approximate: bool = False  # digits of numbers may differ


def read_steps(text: str) -> list[Step]:
    """Return what a page asks to be run, in order."""
    found = [*BLOCK.finditer(text), *TEST.finditer(text)]
    steps: list[Step] = []
    for match in sorted(found, key=re.Match.start):
        info = match.groupdict().get("info", "test")
        if info.startswith("output"):
            last = steps.pop()
            steps.append(Step(last.kind, last.code, match["code"], info == "output numbers"))
        elif not info.endswith("skip"):
            steps.append(Step(info, match["code"]))
    return steps


def is_shown(step: Step, printed: str) -> bool:
    """Whether a page shows what was printed; … stands for anything, and digits of approximate numbers differ."""
    expected = re.escape(step.shown or "").replace("…", ".*")
    if step.is_approximate:
        expected = re.sub(r"\d+(\\\.\d+)?(?=[^\w]|$)", r"[\\d.]+", expected)
    return re.fullmatch(expected, printed) is not None


class Page:
    """A tutorial being run in the present folder; `run` returns what each step printed."""

    def __init__(self, name: str) -> None:
        self.text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        self._names: dict[str, object] = {}
        self._port = _find_free_port()
        self._servers: list[subprocess.Popen[str]] = []

    def run(self) -> Iterator[tuple[Step, str]]:
        """Run the steps; a step of several commands comes back as one step per command."""
        try:
            for step in read_steps(self.text):
                yield from self._run_step(step)
        finally:
            for server in self._servers:
                server.terminate()
                server.wait(timeout=60)
                assert server.stderr is not None
                server.stderr.close()

    def _run_step(self, step: Step) -> Iterator[tuple[Step, str]]:
        code = step.code.replace(PORT, self._port)
        if step.kind == "console":
            for command, shown in read_console(code):
                yield Step("console", command, shown), run_command(command, shown)
        elif step.kind == "bash background":
            self._servers.append(_start(code))
        else:
            assert step.kind in ("python", "test"), step.kind
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "tutorial", "exec"), self._names)
            yield step, printed.getvalue()


def read_console(block: str) -> Iterator[tuple[str, str]]:
    """Return each command of a console block and what is shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def run_command(command: str, shown: str) -> str:
    """Run `elmo ...` in this process and return what it prints; `cat FILE` makes the file as it is shown."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        Path(arguments[0]).write_text(shown, encoding="utf-8")
        return shown
    assert program == "elmo", command
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        code = main(arguments)
    printed = terminal.buffer.getvalue().decode("utf-8")
    assert code == 0, printed
    return printed


def _find_free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def _start(command: str) -> "subprocess.Popen[str]":
    """Start `elmo serve` and return when it says that it serves."""
    program, *arguments = shlex.split(command)
    assert program == "elmo", command
    server = subprocess.Popen([sys.executable, "-m", "elmo", *arguments], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    said = []
    for line in server.stderr:
        said.append(line)
        if "serving at" in line:
            return server
    raise AssertionError("".join(said))


def refresh(name: str) -> None:
    """Write the outputs of a page's Python blocks as they are now; what is shown with … is left alone."""
    page = Page(name)
    outputs = {
        step.code: printed
        for step, printed in page.run()
        if step.kind == "python" and step.shown is not None and "…" not in step.shown
    }
    for file in (DOCS / f"{name}.md", DOCS / f"{name}.zh.md"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            for code, printed in outputs.items():
                before, found, after = text.partition(f"{code}```\n\n```output")
                info, _, rest = after.partition("\n")
                assert found, f"{file.name} lacks the block\n{code}"
                text = f"{before}{found}{info}\n{printed}{rest[rest.index('```') :]}"
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for page_name in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            refresh(page_name)
            os.chdir(DOCS)
