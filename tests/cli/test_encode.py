import json

import h5py
import numpy as np
import pytest

from elmo import Elmo
from tests.cli.conftest import Run

SENTENCES = ["I went to the bank", "", "שלום / עולם", "I went to the bank"]
CONTENT = "\n".join(SENTENCES).encode()


def read_vectors(path) -> np.ndarray:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            assert file.files == ["vectors"]
            return file["vectors"]
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [line["index"] for line in lines] == list(range(len(lines)))
        return np.array([line["vector"] for line in lines], dtype=np.float32)
    with h5py.File(path) as file:
        return np.stack([file[str(number)][...] for number in range(len(file["rows"]))])


@pytest.mark.parametrize("ending", [".npy", ".npz", ".jsonl", ".h5", ".hdf5"])
def test_each_format_has_one_row_per_sentence(run: Run, model_folder, tiny_model, tmp_path, ending):
    output = tmp_path / f"vectors{ending}"
    answer = run("encode", "-", "-m", model_folder, "-o", output, stdin=CONTENT)
    assert (answer.code, answer.err, answer.out) == (0, "", f"Wrote {output} (sentences: 4, words: 13).\n")
    vectors = read_vectors(output)
    assert vectors.shape == (4, tiny_model.dim) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, tiny_model.encode(SENTENCES), atol=1e-6)
    assert not vectors[1].any()
    assert [entry.name for entry in tmp_path.iterdir()] == [output.name]


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("layers", ["top", "concat", "all"])
def test_options_reach_the_model(run: Run, model_folder, tiny_model, tmp_path, pooling, layers):
    output = tmp_path / "vectors.npy"
    run("encode", "-", "-m", model_folder, "-o", output, "--pooling", pooling, "--normalize", "--layers", layers,
        stdin=CONTENT)  # fmt: skip
    expected = tiny_model.encode(SENTENCES, pooling=pooling, normalize_embeddings=True, layers=layers)
    np.testing.assert_allclose(read_vectors(output), expected, atol=1e-6)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize(("layers", "shape"), [("average", (0, 12)), ("concat", (0, 36)), ("all", (0, 3, 12))])
def test_no_sentences_keep_the_shape_of_vectors(run: Run, model_folder, tmp_path, ending, layers, shape):
    output = tmp_path / f"vectors{ending}"
    assert run("encode", "-", "-m", model_folder, "-o", output, "--layers", layers).code == 0
    assert read_vectors(output).shape == shape


def test_lines_on_standard_output(run: Run, model_folder, tiny_model):
    answer = run("encode", "--text", "don't go", "--split-on-spaces", "-m", model_folder)
    line = json.loads(answer.out)
    assert (line["index"], line["words"]) == (0, ["don't", "go"])
    np.testing.assert_allclose(line["vector"], tiny_model.encode([["don't", "go"]])[0], atol=1e-6)


def test_carried_state_reads_on_from_sentence_to_sentence(run: Run, model_folder):
    answer = run("encode", "--text", "I went", "--text", "I went", "--state", "carry", "-m", model_folder)
    model = Elmo.from_pretrained(model_folder, state="carry")
    found = [json.loads(line)["vector"] for line in answer.out.splitlines()]
    np.testing.assert_allclose(found, [model.encode("I went"), model.encode("I went")], atol=1e-6)
    assert not np.allclose(found[0], found[1])


def test_rows_keep_their_place_past_the_read_ahead(run: Run, model_folder, tiny_model, tmp_path):
    output = tmp_path / "vectors.npz"
    sentences = [str(number) for number in range(2100)]
    run("encode", "-", "-m", model_folder, "-o", output, stdin="\n".join(sentences).encode())
    vectors = read_vectors(output)
    assert vectors.shape == (2100, tiny_model.dim)
    np.testing.assert_allclose(vectors[[0, 1500, 2099]], tiny_model.encode(["0", "1500", "2099"]), atol=1e-6)


def test_a_pooling_that_is_not_known(run: Run):
    message = run("encode", "--text", "I", "--pooling", "sum").message()
    assert "--pooling" in message and "'sum' is not one of 'auto', 'head', 'weighted', 'mean', 'max'" in message
