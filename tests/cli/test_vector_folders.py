"""`elmo embed` and `encode` into a folder, and `elmo info` of one."""

import json

import h5py
import numpy as np
import pytest

from elmo import vectors
from tests.cli.conftest import Run


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("I went to the bank\n\nby the river bank\n")
    return path


def test_info_describes_a_vector_folder(run: Run, model_folder, tiny_model, text_file, tmp_path):
    output = tmp_path / "vectors"
    answer = run("embed", text_file, "-m", model_folder, "-o", output)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"Wrote {output} (rows: 3, words: 9, vectors: 9).\n"
    opened = vectors.open(output)
    np.testing.assert_allclose(opened[2].vectors, tiny_model.embed("by the river bank"), atol=1e-6)
    lines = [line.split() for line in run("info", output).out.splitlines()]
    for line in (
        "unit words",
        "file format npy",
        "dtype float32",
        "num written 3",
        "num vectors 9",
        "verified checksums",
    ):
        assert line.split() in lines
    found = json.loads(run("info", output, "--json").out)
    assert found["counts"]["num_written"] == 3
    assert found["inputs"][0]["num_rows"] == 3 and found["num_parts"] == 1


def test_sentences_into_a_folder(run: Run, model_folder, tiny_model, tmp_path):
    path, output = tmp_path / "rows.jsonl", tmp_path / "vectors"
    path.write_text('{"body": "I went", "key": "a"}\n{"body": ["I", "went"], "key": "b"}\n')
    answer = run(
        "encode", path, "--column", "body", "--id-column", "key", "--normalize", "--layers", "top",
        "--file-format", "npy", "--dtype", "float16", "-m", model_folder, "-o", output,
    )  # fmt: skip
    assert answer.code == 0, answer
    opened = vectors.open(output)
    assert [row.id for row in opened] == ["a", "b"]
    expected = tiny_model.encode("I went", normalize_embeddings=True, layers="top")
    for row in opened:
        assert row.vectors.dtype == np.float16
        np.testing.assert_allclose(row.vectors, expected, atol=1e-3)


def test_only_some_words_or_spans(run: Run, model_folder, tiny_model, text_file, tmp_path):
    answer = run("embed", text_file, "--only", "bank", "--only", "river", "-m", model_folder, "-o", tmp_path / "a")
    expected = "(rows: 2, words: 9, vectors: 3)"
    assert answer.out == f"Wrote {tmp_path / 'a'} {expected}.\n"
    assert [row.spans for row in vectors.open(tmp_path / "a")] == [[(4, 5)], [(2, 3), (3, 4)]]
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "by the river bank", "at": [[2, 4]]}\n{"text": "short", "at": [[0, 2]]}\n')
    command = ("embed", path, "--spans", "at", "-m", model_folder, "-o", tmp_path / "b")
    assert f"{path}, line 2, has the span [0, 2], which is not within its 1 words" in run(*command).message()
    assert "Rejected rows, see rejects.jsonl: 1." in run(*command, "--on-error", "reject").out
    (row,) = vectors.open(tmp_path / "b")
    np.testing.assert_allclose(row.vectors, tiny_model.embed_spans("by the river bank", [(2, 4)]), atol=1e-6)


def test_standard_input_is_copied_so_that_it_can_go_on(run: Run, model_folder, tmp_path):
    command = ("embed", "-", "-m", model_folder, "-o", tmp_path / "out")
    assert run(*command, stdin=b"one\ntwo\n").out == f"Wrote {tmp_path / 'out'} (rows: 2, words: 2, vectors: 2).\n"
    assert not (tmp_path / "out" / ".job").exists()
    assert run(*command, stdin=b"one\ntwo\n").code == 0
    assert "its input files are not those given now" in run(*command, stdin=b"one\nthree\n").message()


LONG = b"word " * 2_000_000  # 10 MB
# One row for each kind of oddity; those that cannot be read are named by line and reason.
ODD = {
    b"tab\there": None,
    b"nul\0 \0": None,
    b"and/or ../up": None,
    b"": None,
    "שלום עולם".encode(): None,
    b"windows\r": None,
    b"na\xefve": "is not UTF-8 (byte 0xef at position 2)",
    LONG: "has 2,000,000 words, more than 1,048,576",
    b"last": None,
}


@pytest.mark.parametrize("file_format", [pytest.param("parquet", id="with a line of 10 MB"), "npy"])
def test_odd_text_passes_or_is_rejected_by_name(run: Run, model_folder, tmp_path, file_format):
    path, output = tmp_path / "odd.txt", tmp_path / "out"
    odd = {line: reason for line, reason in ODD.items() if line is not LONG or file_format == "parquet"}
    path.write_bytes(b"\n".join(odd))
    command = ("embed", path, "--split-on-spaces", "-m", model_folder, "-o", output, "--file-format", file_format)
    message = run(*command).message()
    assert message.startswith(f"{path}, line 7, is not UTF-8") and "--on-error reject" in message
    assert run(*command, "--on-error", "reject").code == 0
    passed = [number for number, reason in enumerate(odd.values()) if reason is None]
    opened = vectors.open(output)
    assert [row.index for row in opened] == passed
    texts = [line.decode().removesuffix("\r") for line, reason in odd.items() if reason is None]
    assert [" ".join(row.words) for row in opened] == texts
    rejects = [json.loads(line) for line in (output / "rejects.jsonl").read_text().splitlines()]
    broken = [number for number, reason in enumerate(odd.values()) if reason is not None]
    assert [each["index"] for each in rejects] == broken
    assert [(each["line"], each["input"]) for each in rejects] == [(number + 1, str(path)) for number in broken]
    for reject, reason in zip(rejects, filter(None, odd.values()), strict=True):
        assert reject["reason"].startswith(reason)
    assert opened.manifest["counts"]["num_rows"] == len(odd)


def test_info_reports_damage(run: Run, model_folder, text_file, tmp_path):
    output = tmp_path / "vectors"
    run("embed", text_file, "-m", model_folder, "-o", output, "--file-format", "parquet")
    part = output / "part-00000.parquet"
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    expected = f"{output} is damaged: part-00000.parquet has a checksum mismatch; copy it again, or run"
    assert run("info", output).message().startswith(expected)
    part.unlink()
    assert "part-00000.parquet cannot be read (No such file or directory)" in run("info", output).message()
    (output / "manifest.json").unlink()
    (output / ".job").mkdir()
    (output / ".job" / "plan.json").write_text("{}")
    assert "holds no finished vectors" in run("info", output).message()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--text", "I", "-o", "{}"],
            "Sentences can be written to standard output or one file",
        ),
        (["-o", "{}"], "Nothing to read; name text files, or -"),
        (["-", "--state", "carry", "-o", "{}"], "The parts of a folder are computed independently"),
        (["-", "--workers", "0", "-o", "{}"], "--workers is 0"),
        (["-", "--address", "auto", "-o", "{}"], "An address is only valid with engine='ray'"),
        (["none.txt", "-o", "{}"], "No such file: 'none.txt'"),
        (["-", "--file-format", "npy"], "--file-format is for folders of vectors, but --output is not a folder"),
        (["-", "--on-error", "reject"], "--on-error is for folders of vectors"),
    ],
)
def test_mistakes(run: Run, model_folder, tmp_path, arguments, message):
    output = tmp_path / "out"
    arguments = [argument.replace("{}", str(output)) for argument in arguments]
    assert message in run("embed", *arguments, "-m", model_folder).message()
    assert not output.exists()


def test_json_lines_and_patterns_are_read_for_standard_output_too(run: Run, model_folder, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "I went"}\n{"tokens": ["a b"]}\n')
    (tmp_path / "b.csv").write_text("text,x\nthree,1\n")
    answer = run("embed", tmp_path / "[ab].*", "-m", model_folder)
    assert [json.loads(line)["words"] for line in answer.out.splitlines()] == [["I", "went"], ["a b"], ["three"]]
    answer = run("encode", "-", "--format", "jsonl", "--column", "x", "-m", model_folder, stdin=b'{"y": 1}')
    assert answer.message() == ("standard input, line 1, has no column 'x', only 'y'; choose one with --column.")


def test_running_text_is_split_into_sentences(run: Run, model_folder, tmp_path):
    (tmp_path / "text.txt").write_text("One here. Two here.\nThree\n\nFour here.\n")
    expected = {"lines": 4, "sentences": 4, "none": 2}
    for split, number in expected.items():
        answer = run("embed", tmp_path / "text.txt", "--split", split, "-m", model_folder)
        texts = [" ".join(json.loads(line)["words"]) for line in answer.out.splitlines()]
        assert len(texts) == number, (split, texts)
    assert texts[0] == "One here . Two here . Three"


def test_a_parquet_file_is_the_same_as_that_of_a_folder(run: Run, model_folder, text_file, tmp_path):
    command = ("embed", text_file, "--dtype", "int8", "-m", model_folder)
    assert run(*command, "-o", tmp_path / "vectors.parquet").code == 0
    assert run(*command, "-o", tmp_path / "folder", "--file-format", "parquet").code == 0
    (part,) = (tmp_path / "folder").glob("part-*")
    assert part.read_bytes() == (tmp_path / "vectors.parquet").read_bytes()
    assert vectors.open(tmp_path / "folder")[2].text == "by the river bank"


def test_an_hdf5_file_has_the_scales_of_int8_in_a_group(run: Run, model_folder, text_file, tiny_model, tmp_path):
    output = tmp_path / "vectors.h5"
    assert run("embed", text_file, "--dtype", "int8", "-m", model_folder, "-o", output).code == 0
    with h5py.File(output) as file:
        words = [json.loads(row)["words"] for row in file["rows"].asstr()]
        for number, expected in enumerate(tiny_model.embed(words)):
            restored = file[str(number)][...].astype(np.float32) * file[f"scales/{number}"][...][:, None]
            np.testing.assert_allclose(restored, expected, atol=np.abs(expected).max(initial=0) / 127)


def test_hdf5_folders_are_refused_in_one_sentence(run: Run, model_folder, text_file, tmp_path):
    output = tmp_path / "out"
    assert run("embed", text_file, "-m", model_folder, "-o", output, "--file-format", "hdf5").code == 2
    assert run("embed", text_file, "-m", model_folder, "-o", output).code == 0
    manifest = output / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"file_format": "npy"', '"file_format": "hdf5"'))
    message = run("info", output).message()
    assert message == (
        f"{manifest} is damaged or of an earlier version; copy it again, or run the command that wrote it again with "
        "--force."
    )
    assert run("embed", text_file, "-m", model_folder, "-o", output, "--force").code == 0
