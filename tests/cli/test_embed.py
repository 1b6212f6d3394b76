import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo import Elmo
from elmo.vectors.formats import vectors_to_json
from tests.cli.conftest import Run

# A slash and a duplicate broke AllenNLP's files, U+2028 breaks str.splitlines, NUL breaks numpy's strings.
ODD_LINES = [
    "I went to the bank",
    "",
    "and/or / ../up",
    "I went to the bank",
    "a\tb",
    "nul\0 \0",
    "שלום עולם",
    "one\u2028two\u2029three\x85four\x0bfive",
    "carriage\rreturn",
    "你好 🙂",
    '{"0": "words"} \\',
]
ODD_FILE = "\r\n".join(ODD_LINES).encode()


@pytest.fixture
def odd_file(tmp_path: Path) -> Path:
    path = tmp_path / "odd.txt"
    path.write_bytes(ODD_FILE)
    return path


@pytest.fixture(scope="module")
def odd_words(tiny_model: Elmo) -> list[list[str]]:
    return [[word.text for word in tiny_model.tokenize(line)] for line in ODD_LINES]


def read_lines(content: str) -> list[dict]:
    # splitlines cuts at every separator Unicode has: the lines must survive even that.
    return [json.loads(line) for line in content.splitlines()]


def assert_same(found, expected) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one = np.asarray(one, dtype=np.float32).reshape(other.shape)
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_npz_survives_any_text(run: Run, model_folder, odd_file, odd_words, tiny_model, tmp_path):
    output = tmp_path / "vectors.npz"
    answer = run("embed", odd_file, "--model", model_folder, "--output", output)
    assert (answer.code, answer.err) == (0, "")
    num_words = sum(map(len, odd_words))
    assert answer.out == f"Wrote {output} (sentences: {len(ODD_LINES)}, words: {num_words}).\n"
    with np.load(output, allow_pickle=False) as file:
        assert sorted(file.files) == sorted([*map(str, range(len(ODD_LINES))), "words"])
        assert [json.loads(line) for line in file["words"].tobytes().splitlines()] == odd_words
        assert_same([file[str(number)] for number in range(len(ODD_LINES))], tiny_model.embed(ODD_LINES))
        assert file["1"].shape == (0, tiny_model.dim) and file["0"].dtype == np.float32


@pytest.mark.parametrize("ending", [".h5", ".hdf5"])
def test_hdf5_survives_any_text(run: Run, model_folder, odd_file, odd_words, tiny_model, tmp_path, ending):
    output = tmp_path / f"vectors{ending}"
    assert run("embed", odd_file, "-m", model_folder, "-o", output).code == 0
    with h5py.File(output) as file:
        assert sorted(file) == sorted([*map(str, range(len(ODD_LINES))), "rows"])
        assert [json.loads(line)["words"] for line in file["rows"].asstr()] == odd_words
        assert_same([file[str(number)][...] for number in range(len(ODD_LINES))], tiny_model.embed(ODD_LINES))
        assert file["1"].shape == (0, tiny_model.dim)


def test_jsonl_survives_any_text(run: Run, model_folder, odd_file, odd_words, tiny_model, tmp_path):
    output = tmp_path / "vectors.jsonl"
    assert run("embed", odd_file, "-m", model_folder, "-o", output).code == 0
    lines = read_lines(output.read_text(encoding="utf-8"))
    assert [line["index"] for line in lines] == list(range(len(ODD_LINES)))
    assert [line["words"] for line in lines] == odd_words
    assert_same([line["vectors"] for line in lines], tiny_model.embed(ODD_LINES))
    assert "שלום" in output.read_text(encoding="utf-8")


def test_standard_input_gives_lines_on_standard_output(run: Run, model_folder, odd_words):
    answer = run("embed", "-", "-m", model_folder, stdin=ODD_FILE)
    assert (answer.code, answer.err) == (0, "")
    assert [line["words"] for line in read_lines(answer.out)] == odd_words


def test_json_numbers_are_the_very_same_float32():
    numbers = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    numbers[0, :4] = [0, 1e-30, -3e38, 1 / 3]
    assert (np.array(json.loads(vectors_to_json(numbers)), dtype=np.float32) == numbers).all()


def test_npy_accepts_one_sentence(run: Run, model_folder, tiny_model, tmp_path):
    output = tmp_path / "vectors.NPY"
    assert run("embed", "--text", "I went", "-m", model_folder, "-o", output).code == 0
    np.testing.assert_allclose(np.load(output), tiny_model.embed("I went"), atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"a\nb\n"])
def test_npy_refuses_any_other_number_of_sentences(run: Run, tmp_path, content):
    output = tmp_path / "vectors.npy"
    message = run("embed", "-", "-o", output, stdin=content).message()
    assert message.startswith("An .npy file holds the words of exactly one sentence; write .npz, .h5 or .jsonl")
    assert not list(tmp_path.iterdir())


def test_files_standard_input_and_texts_follow_each_other(run: Run, model_folder, tmp_path):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_bytes(b"\xef\xbb\xbfone\n\n")  # Windows editors begin a file with a mark
    second.write_bytes(b"four\nfive")
    answer = run("embed", first, "-", second, "--text", "six\nlines", "--text", "", "-m", model_folder, stdin=b"three")
    expected = [["one"], [], ["three"], ["four"], ["five"], ["six", "lines"], []]
    assert [line["words"] for line in read_lines(answer.out)] == expected


@pytest.mark.parametrize(
    ("given", "layers"),
    [("average", "average"), ("top", "top"), ("all", "all"), ("concat", "concat"), ("0", 0), ("-1", -1),
     ("auto", "auto"), ("0.5,0,-2", [0.5, 0, -2])],
)  # fmt: skip
def test_layers(run: Run, model_folder, tiny_model, given, layers):
    answer = run("embed", "--text", "I went", "--text", "", "-m", model_folder, "--layers", given)
    found = [line["vectors"] for line in read_lines(answer.out)]
    assert_same(found, tiny_model.embed(["I went", ""], layers=layers))


@pytest.mark.parametrize("given", ["tpo", "1.5", "1,2,x", "nan,1,1", ""])
def test_layers_that_mean_nothing(run: Run, model_folder, given):
    message = run("embed", "--text", "I", "--layers", given, "-m", model_folder).message()
    assert message.startswith("layers is ") and given.split(",")[0] in message


def test_layers_that_the_model_has_not(run: Run, model_folder, tmp_path):
    output = tmp_path / "vectors.h5"
    answer = run("embed", "--text", "I", "--layers", "7", "-m", model_folder, "-o", output)
    assert "layers is 7; " in answer.message()
    assert not list(tmp_path.iterdir())


def test_words_between_spaces(run: Run, model_folder):
    answer = run("embed", "--text", "don't go, now", "--split-on-spaces", "-m", model_folder)
    assert read_lines(answer.out)[0]["words"] == ["don't", "go,", "now"]


def test_carried_state_reads_on_from_sentence_to_sentence(run: Run, model_folder):
    answer = run("embed", "--text", "I went", "--text", "I went", "--state", "carry", "-m", model_folder)
    model = Elmo.from_pretrained(model_folder, state="carry")
    expected = [model.embed("I went"), model.embed("I went")]
    assert_same([line["vectors"] for line in read_lines(answer.out)], expected)
    assert not np.allclose(expected[0], expected[1])


@pytest.mark.parametrize("ending", [".npz", ".h5", ".jsonl"])
def test_no_sentences_are_a_file_of_none(run: Run, model_folder, tmp_path, ending):
    output = tmp_path / f"vectors{ending}"
    answer = run("embed", "-", "-m", model_folder, "-o", output)
    assert answer.out == f"Wrote {output} (sentences: 0, words: 0).\n"
    if ending == ".npz":
        assert np.load(output)["words"].shape == (0,)
    elif ending == ".h5":
        assert h5py.File(output)["rows"].shape == (0,)
    else:
        assert output.read_bytes() == b""


def test_many_sentences_pass_the_read_ahead_and_the_hdf5_blocks(run: Run, model_folder, tmp_path):
    output = tmp_path / "vectors.h5"
    content = "".join(f"{number}\n" for number in range(2100)).encode()
    assert run("embed", "-", "-m", model_folder, "-o", output, stdin=content).code == 0
    with h5py.File(output) as file:
        assert [json.loads(line)["words"] for line in file["rows"].asstr()] == [[str(n)] for n in range(2100)]
        assert file["2099"].shape[0] == 1


def test_the_same_vectors_give_the_same_file(run: Run, model_folder, tmp_path):
    for name in ("one.npz", "two.npz"):
        run("embed", "--text", "I went", "-m", model_folder, "-o", tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_an_existing_file_is_replaced_behind_its_link(run: Run, model_folder, tmp_path):
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    link.symlink_to(real)
    assert run("embed", "--text", "I", "-m", model_folder, "-o", link).code == 0
    assert link.is_symlink() and json.loads(real.read_text())["words"] == ["I"]
