"""Commands in separate processes: exit codes, signals, closed streams. Each costs an import."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "elmo"]
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def test_help_and_version_import_nothing_heavy():
    program = """
import sys
from elmo.cli import main
from elmo.cli.app import COMMANDS
for arguments in (["--help"], ["--version"], *([*name.split(), "--help"] for name in COMMANDS)):
    assert main(arguments) == 0
heavy = {"torch", "numpy", "h5py", "rich", "tokenizers", "safetensors", "huggingface_hub"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_from_text_to_lines(model_folder):
    done = subprocess.run(
        [*COMMAND, "embed", "-", "-m", model_folder], input="naïve 你好\n\nlast".encode(), capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert [line["words"] for line in lines] == [["naïve", "你", "好"], [], ["last"]]


def test_a_mistake_is_one_line_and_code_2(tmp_path):
    done = subprocess.run([*COMMAND, "embed", tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("elmo: ") and done.stderr.count("\n") == 1


@pytest.mark.needs("SIGKILL")
def test_ctrl_c_leaves_no_file(model_folder, tmp_path):
    output = tmp_path / "vectors.npz"
    process = subprocess.Popen(
        [*COMMAND, "embed", "-", "-m", model_folder, "-o", output],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    # Enough for the first vectors to be written; the rest of the text never comes.
    process.stdin.write(b"I went to the bank\n" * 3000)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in tmp_path.rglob("*.npz")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"elmo: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_leaves_ends_the_command_quietly(model_folder):
    process = subprocess.Popen(
        [*COMMAND, "embed", "-", "-m", model_folder],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"I went to the bank\n" * 200)
    process.stdin.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, b"elmo: No space left on device.\n")


def run_in_shell(redirect, *arguments):
    """Run the command with some of its streams closed by the shell."""
    script = f'exec "$@" {redirect}'
    return subprocess.run(["sh", "-c", script, "sh", *COMMAND, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("command", ["embed", "embed into a folder", "score", "prepare", "task predict"])
def test_closed_standard_input_is_reported(model_folder, tmp_path, command):
    folder = tmp_path / "out"
    arguments = {
        "embed": ("embed", "-", "-m", model_folder),
        "embed into a folder": ("embed", "-", "-m", model_folder, "-o", folder),
        "score": ("score", "-", "-m", make_language_folder(tmp_path)),
        "prepare": ("prepare", "-", "-o", folder),
        "task predict": ("task", "predict", make_task(tmp_path), "-"),
    }[command]
    done = run_in_shell("<&-", *arguments)
    assert (done.returncode, done.stderr) == (
        2, "elmo: Standard input is closed; name a file, or leave it open.\n"
    )  # fmt: skip
    assert not folder.exists()


def test_closed_standard_output_does_not_damage_files(model_folder, tmp_path):
    (tmp_path / "text.txt").write_text("a bank\n")
    done = run_in_shell(">&-", "embed", tmp_path / "text.txt", "-m", model_folder, "-o", tmp_path / "vectors.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "vectors.jsonl").read_text())["words"] == ["a", "bank"]


def test_all_streams_may_be_closed(model_folder, tmp_path):
    (tmp_path / "text.txt").write_text("a bank\n")
    vectors = tmp_path / "vectors.jsonl"
    done = run_in_shell("<&- >&- 2>&-", "embed", tmp_path / "text.txt", "-m", model_folder, "-o", vectors)
    assert done.returncode == 0 and json.loads(vectors.read_text())["words"] == ["a", "bank"]


def make_language_folder(folder):
    from tests.language_models import make_language_model

    make_language_model().save_pretrained(folder / "language")
    return folder / "language"


def make_task(folder):
    from elmo import tasks
    from tests.tasks.toys import small, write_toy

    files = [str(write_toy("classification", folder, name)) for name in ("train", "dev")]
    settings = small("classification", fit__num_epochs=1, elmo__where="none")
    return tasks.train(files[0], kind="topic", dev=files[1], output=folder / "task", settings=settings).folder
