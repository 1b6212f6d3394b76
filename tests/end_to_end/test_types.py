"""Ordinary calls pass a strict type checker with precise return types."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "typing" / "user_program.py"


def check(program: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy", reason="mypy, of the extra modern-elmo[dev], is not installed")
    # The project's own settings would forgive what a user's strict settings do not.
    settings = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    cache = ROOT / ".mypy_cache" / "user_program"
    return subprocess.run(
        [sys.executable, "-m", "mypy", *settings, f"--cache-dir={cache}", str(program)],
        capture_output=True,
        text=True,
        cwd=program.parent,
        timeout=280,
    )


def test_a_users_program_is_well_typed():
    answer = check(PROGRAM)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_calls_have_precise_return_types(tmp_path: Path):
    program = tmp_path / "wrong.py"
    program.write_text(
        "from elmo import Elmo\n"
        "from elmo.compat.allennlp import Elmo as AllenNlpElmo, batch_to_ids\n"
        "from elmo.compat.tfhub import Module\n"
        'a: int = Elmo.from_pretrained("tiny").embed("I went")\n'
        'b: int = AllenNlpElmo("options.json", "weights.hdf5", 1)(batch_to_ids([["a"]]))\n'
        'c: int = Module("tiny")(["a"])\n'
        'd: int = Module("tiny")(["a"], as_dict=True)\n',
        encoding="utf-8",
    )
    lines = check(program).stdout.splitlines()
    found = [int(line.split(":")[1]) for line in lines if "Incompatible types in assignment" in line]
    assert found == [4, 5, 6, 7], lines
