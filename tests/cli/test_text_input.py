"""Invalid input and output of `embed` and `encode`."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_nothing_to_read(run: Run):
    assert "Nothing to read" in run("embed").message()


@pytest.mark.parametrize("command", ["embed", "encode"])
@pytest.mark.parametrize(
    "text", ["I went to the bank", "bank", "我去银行存钱。", "Really?", "and / or", "It cost 3.5 euros."]
)
def test_a_sentence_is_an_argument(run: Run, model_folder, command, text):
    answer = run(command, text, "-m", model_folder)
    assert answer.code == 0, answer
    assert json.loads(answer.out)["words"] == json.loads(run(command, "--text", text, "-m", model_folder).out)["words"]


@pytest.mark.parametrize("name", ["no.txt", "my texts/no.jsonl.gz", "folder/no", "no.docx"])
def test_the_name_of_a_missing_file_is_no_sentence(run: Run, name):
    assert run("embed", name).message().startswith(f"No such file: {name!r}; a sentence that looks like")


def test_a_file_wins_over_a_sentence_and_both_may_be_mixed(run: Run, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_text("from the file\n")
    answer = run("embed", "a file", "not a file", "-m", model_folder)
    expected = [["from", "the", "file"], ["not", "a", "file"]]
    assert [json.loads(line)["words"] for line in answer.out.splitlines()] == expected


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_sentence_is_refused(run: Run, text):
    assert run("embed", text).message().startswith(f"The sentence {text!r} is empty; ")


def test_a_folder_in_place_of_a_file(run: Run, tmp_path):
    assert f"{tmp_path} is a folder" in run("embed", tmp_path).message()


def test_standard_input_twice(run: Run):
    assert "- is named twice" in run("embed", "-", "-").message()


def test_bytes_that_are_not_utf8_are_named_by_file_and_line(run: Run, model_folder, tmp_path):
    path, output = tmp_path / "latin.txt", tmp_path / "vectors.npz"
    path.write_bytes(b"fine\n\nna\xefve\n")
    assert (
        f"{path}, line 3, is not UTF-8 (byte 0xef at position 2)"
        in run("embed", path, "-m", model_folder, "-o", output).message()
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["latin.txt"]
    answer = run("embed", "-", "-m", model_folder, stdin=b"\xff\xfea\0")
    assert answer.message().startswith("standard input, line 1, is not UTF-8 (byte 0xff at position 0)")


def test_an_argument_that_is_not_utf8(run: Run):
    message = "The argument 'na\\udcefve' is not UTF-8"
    assert message in run("embed", "--text", "na\udcefve").message()


@pytest.mark.parametrize("name", ["vectors.txt", ".npz"])
def test_an_output_of_no_known_format(run: Run, name):
    assert f"--output is {name!r}" in run("embed", "--text", "I", "-o", name).message()


def test_an_output_that_is_the_input(run: Run, tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text("one")
    message = f"{path} is both input and output"
    assert message in run("embed", path, "-o", tmp_path / "." / "text.jsonl").message()
    assert path.read_text() == "one"


def test_an_output_in_no_folder(run: Run, model_folder, tmp_path):
    output = tmp_path / "missing" / "vectors.npz"
    message = f"The folder {output.parent} does not exist"
    assert message in run("embed", "--text", "I", "-m", model_folder, "-o", output).message()


def test_an_output_that_is_no_plain_file(run: Run, model_folder, tmp_path):
    output = tmp_path / "folder.npz"
    output.mkdir()
    message = f"{output} is not a regular file"
    assert message in run("embed", "--text", "I", "-m", model_folder, "-o", output).message()


def test_an_output_of_a_dash_is_standard_output(run: Run, model_folder):
    assert run("embed", "--text", "I", "-m", model_folder, "-o", "-").out.startswith('{"index": 0')


@pytest.mark.needs("/proc")
def test_a_pipe_is_read_like_a_file(run: Run, model_folder, tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    name = Path(f"/dev/fd/{reading}")
    if not name.exists():
        pytest.skip("this system does not name its open files")
    answer = run("embed", name, "-m", model_folder)
    os.close(reading)
    assert answer.out.count("\n") == 2
