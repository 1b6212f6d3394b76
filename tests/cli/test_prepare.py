"""The command `elmo prepare`; preparation itself is tested in tests/corpus."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmo import progress
from elmo.cli import main
from elmo.corpus.prepared import PreparedCorpus
from tests.cli.conftest import Run

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("The cat sat on the mat. It slept.\nA dog barked.\n", encoding="utf-8")
    return path


def test_a_summary_for_people(run: Run, text, tmp_path):
    answer = run("prepare", text, "--output", tmp_path / "out", "--workers", 1, "--vocabulary-size", 6)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        f"{tmp_path}/out holds 14 words in 3 sentences; 12 words are distinct, 6 are in the vocabulary; "
        "64.29% of all words are out of vocabulary.\n"
    )
    assert PreparedCorpus.open(tmp_path / "out").vocabulary == (
        "<S>",
        "</S>",
        "<UNK>",
        ".",
        "A",
        "It",
    )


def test_a_summary_for_programs(run: Run, text, tmp_path):
    answer = run("prepare", text, "-o", tmp_path / "out", "--workers", 1, "--json")
    assert json.loads(answer.out) == {
        "folder": str(tmp_path / "out"),
        "num_words": 14,
        "num_sentences": 3,
        "num_tokens": 17,
        "num_distinct_words": 12,
        "num_unknown_words": 0,
        "unknown_rate": 0.0,
        "vocabulary_size": 15,
        "num_shards": 1,
    }
    assert run("prepare", text, "-o", tmp_path / "out", "--json").out == answer.out  # found finished


def test_standard_input_is_text(run: Run, text, tmp_path):
    for folder, name in (("a", "-"), ("b", text)):
        assert run("prepare", name, "-o", tmp_path / folder, "--workers", 1, stdin=text.read_bytes()).code == 0
    a, b = (PreparedCorpus.open(tmp_path / folder) for folder in "ab")
    assert a.words(a.shard(0)) == b.words(b.shard(0))
    assert a.manifest["inputs"][0]["name"] == "-"
    assert not (tmp_path / "a" / ".preparing").exists()


def test_every_option_reaches_the_settings(run: Run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "One. Two."}\n')
    (tmp_path / "words").write_text("<S>\n</S>\n<UNK>\nOne.\n")
    pattern, words = tmp_path / "*.jsonl", tmp_path / "words"
    arguments = ["--column", "body", "--split-on-spaces", "--workers", 1]
    assert run("prepare", pattern, "-o", tmp_path / "1", *arguments, "--vocabulary", words).code == 0
    assert PreparedCorpus.open(tmp_path / "1").vocabulary[3:] == ("One.",)
    assert run("prepare", pattern, "-o", tmp_path / "1", *arguments, "--split", "none", "--min-count", 1).code == 2
    answer = run("prepare", pattern, "-o", tmp_path / "1", *arguments, "--split", "none", "--min-count", 1, "--force")
    assert answer.code == 0
    settings = PreparedCorpus.open(tmp_path / "1").manifest["settings"]
    assert (settings["split"], settings["min_count"], settings["field"]) == ("none", 1, "body")
    assert run("prepare", pattern, "-o", tmp_path / "2", *arguments, "--language", "de").code == 0
    assert PreparedCorpus.open(tmp_path / "2").manifest["settings"]["language"] == "de"


def test_mistakes_are_one_line(run: Run, text, tmp_path):
    output = tmp_path / "out"
    assert "No such file: 'none.txt'" in run("prepare", "none.txt", "-o", output).message()
    assert "Missing option '--output'" in run("prepare", text).message()
    assert "vocabulary_size and min_count were given together" in run(
        "prepare", text, "-o", output, "--vocabulary-size", 9, "--min-count", 2
    ).message()  # fmt: skip
    assert not output.exists()


def test_the_bar_counts_words(text, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["prepare", str(text), "-o", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert "14 words, " in sys.stderr.getvalue() and "left" in sys.stderr.getvalue()


@pytest.mark.needs("SIGKILL")
def test_ctrl_c_is_one_line_and_the_command_goes_on_later(tmp_path):
    path, output = tmp_path / "text.txt", tmp_path / "out"
    path.write_text("The cat sat on the mat, and the dog saw it.\n" * 500_000)
    command = [sys.executable, "-m", "elmo", "prepare", path, "-o", output, "--workers", "2", "--split", "lines"]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (output / ".preparing" / "plan.json").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    time.sleep(0.5)  # the workers are at it; the answer is the same if they are not yet
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    arguments = shlex.join(["elmo", *map(str, command[3:])])
    assert (process.returncode, out) == (130, b"")
    assert err.decode() == f"elmo: interrupted; resume: {arguments}\n"
    # Nothing at all if no part was finished by then.
    assert not output.exists() or [entry.name for entry in output.iterdir()] == [".preparing"]
