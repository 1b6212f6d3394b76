"""Run every command that a documentation page shows with its output, and update the outputs on the page.

python benchmarks/analysis.py --model MODEL --data DATA --work FOLDER docs/analysis.md

DATA contains corpus/ and tasks/. FOLDER keeps the index, so an interrupted run can be repeated; use one folder per
model. Blocks of ```console that contain the word MODEL are run, each command once.
"""

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "MODEL"
BLOCK = re.compile(r"^```console\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", metavar="TEXT", default="", help="only run commands that contain this text")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    model = str(Path(options.model).resolve()) if Path(options.model).exists() else options.model
    make_work_folder(options.work, options.data)
    printed: dict[str, str] = {}
    for page in options.pages:
        for command in find_commands(page.read_text(encoding="utf-8")):
            if options.only in command:
                if command not in printed:
                    printed[command] = run(command, model, options.work)
                page.write_text(refresh(page.read_text(encoding="utf-8"), printed), encoding="utf-8")


def make_work_folder(folder: Path, data: Path) -> None:
    """Create the input files of the commands."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = ROOT / "docs" / "pictures"
    pictures.mkdir(exist_ok=True)
    targets = [data / "corpus", data / "tasks", pictures, ROOT / "examples", ROOT / "benchmarks"]
    for target in targets:
        link = folder / target.name
        if not link.exists():
            link.symlink_to(target.resolve())


def find_commands(page: str) -> list[str]:
    """Return the commands of a page that use a model, in order."""
    return [
        match["command"]
        for block in BLOCK.finditer(page)
        if PLACEHOLDER in block["code"]
        for match in COMMAND.finditer(block["code"])
    ]


def refresh(page: str, printed: Mapping[str, str]) -> str:
    """Return the page with the current outputs of its commands, where known."""

    def refresh_command(match: re.Match[str]) -> str:
        shown = printed.get(match["command"], match["shown"])
        return f"$ {match['command']}\n{shown}"

    return BLOCK.sub(lambda block: f"```console\n{COMMAND.sub(refresh_command, block['code'])}```", page)


def split(command: str) -> list[str]:
    """Return the arguments of a command, which may continue after a backslash."""
    return shlex.split(command.replace("\\\n", " "))


def run(command: str, model: str, folder: Path) -> str:
    """Run a command of a page and return its output without the JSON line."""
    words = [model if word == PLACEHOLDER else word for word in split(command)]
    program = {"elmo": [sys.executable, "-m", "elmo"], "python": [sys.executable]}[words[0]]
    started = time.perf_counter()
    print(f"$ {command}", flush=True)
    ended = subprocess.run([*program, *words[1:]], cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    print(f"{time.perf_counter() - started:.1f} s\n{ended.stdout}", flush=True)
    lines = [line for line in ended.stdout.replace(model, PLACEHOLDER).splitlines() if not line.startswith("{")]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
