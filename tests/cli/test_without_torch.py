"""Inference commands work without torch; training commands name the extra to install."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Missing())
from elmo.cli import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules
sys.exit(code)
"""
TEXT = "I went to the bank to deposit money .\nThe bank of the river is steep .\nShe plays the piano .\n" * 8
PLAY = "the [bank] lends money"


def run(*arguments, folder=None):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=folder
    )


READING = [
    ["embed", "I went to the bank"],
    ["embed", "text.txt", "--output", "vectors"],
    ["embed", "text.txt", "--output", "vectors.h5", "--dtype", "float16"],
    ["encode", "text.txt", "--output", "sentences.npy"],
    ["similarity", "the [bank] lends", "the river [bank]", "--by-layer"],
    ["similarity", "one sentence", "another one", "--json"],
    ["score", "I went to the bank", "--json"],
    ["substitutes", PLAY, "--top-k", "3"],
    ["evaluate", "text.txt", "--json"],
    ["tag", "Ada Lovelace was born in London", "--json"],
    ["task", "predict", "en-entities", "--text", "Ada Lovelace was born in London", "--json"],
    ["info"],
    ["convert", "en-small", "copy"],
    ["convert", "en-small", "copy-hdf5", "--to", "hdf5"],
    ["vocab", "en-small", "larger", "--add", "words.txt"],
    ["export", "word2vec", "en-small", "vectors.txt", "--words", "words.txt"],
    ["export", "onnx", "en-small", "en-small.onnx"],
    ["prepare", "text.txt", "--output", "corpus", "--min-count", "1", "--workers", "1"],
    ["static", "corpus", "--output", "static.txt", "--dim", "4", "--words", "10"],
    ["fuse", "en-small", "corpus", "--output", "fused", "--dim", "4", "--words", "10"],
    ["neighbors", PLAY, "--corpus", "text.txt", "--json"],
    ["neighbors", "--build", "index", "--corpus", "text.txt"],
    ["neighbors", PLAY, "--corpus", "index", "--json"],
    ["senses", "bank", "--corpus", "text.txt", "--json"],
    ["plot", "similarity", "the bank", "a river", "--output", "picture.png"],
    ["plot", "map", "bank", "--corpus", "text.txt", "--output", "map.png"],
    ["bench", "--seconds", "0.01"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without-torch")
    (folder / "text.txt").write_text(TEXT)
    (folder / "words.txt").write_text("bank\nsnorkelwort\n")
    return folder


# In this order: some commands read what others wrote.
@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_reading_commands_work(folder, arguments):
    done = run(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    if "--json" in arguments:
        assert json.loads(done.stdout)


@pytest.mark.needs("SIGKILL")
def test_a_server_answers(tmp_path):
    pytest.importorskip("fastapi", reason="the extra modern-elmo[serve] is not installed")
    arguments = [sys.executable, "-c", PROGRAM, "serve", "en-small", "--port", "0"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        try:
            assert server.stderr is not None
            said = server.stderr.readline()
            (address,) = re.findall(r"http://\S+", said) or [pytest.fail(said)]
            body = json.dumps({"sentences": ["the bank lends money"]}).encode()
            request = urllib.request.Request(f"{address.rstrip('/')}/embed", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as response:
                assert response.status == 200
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) in (0, 130)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "corpus", "--output", "run"], "train"),
        (["task", "train", "pos", "--train", "a.conllu", "--output", "tagger"], "tasks"),
        (["task", "evaluate", "tagger", "a.conllu"], "tasks"),
        (["task", "predict", "tagger", "--text", "a"], "tasks"),
        (["probe", "tagging", "--train", "a.conllu", "--test", "b.conllu"], "tasks"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_training_commands_name_the_missing_extra(arguments, extra):
    done = run(*arguments)
    command = " ".join(arguments[: 2 if arguments[0] == "task" else 1])
    assert done.returncode == 2
    assert done.stderr.startswith(f"elmo: elmo {command} needs torch: ") and f"[{extra}]" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["task", "train", "--help"], ["--version"]])
def test_help_needs_nothing(arguments):
    assert run(*arguments).returncode == 0
