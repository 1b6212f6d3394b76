"""AllenNLP's ElmoEmbedder and the files it writes."""

import io
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo import ConfigError, InputError
from elmo.compat.allennlp import ElmoEmbedder
from elmo.model import Elmo

from .conftest import WORDS, with_wrong_sentences

ODD_LINES = "the bank\n\n  <S> a/b/c . \nthe bank\n.\n\n日本語 ' \" \\\n"


@pytest.fixture
def embedder(tiny_files) -> ElmoEmbedder:
    return ElmoEmbedder(*tiny_files)


def test_both_batches_of_the_original_with_the_state_carried(original_vectors: Path):
    folder = original_vectors / "tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    embedder = ElmoEmbedder(folder / "options.json", folder / "weights.hdf5")
    with np.load(folder / "expected.npz") as expected:
        for name in ("first", "second"):
            for row, array in enumerate(embedder.embed_batch(sentences[name])):
                np.testing.assert_allclose(array, expected[f"{name}_{row}"], atol=1e-5)


def test_ten_batches_of_three_of_bilm_tf(original_vectors: Path):
    folder = original_vectors / "bilm-tf"
    streams = json.loads((folder / "lm_embeddings_sentences.json").read_text("utf-8"))
    embedder = ElmoEmbedder(folder / "options.json", folder / "lm_weights.hdf5")
    for number in range(10):
        arrays = embedder.embed_batch([stream[number].split() for stream in streams])
        for stream, array in enumerate(arrays):
            with h5py.File(folder / f"lm_embeddings_{stream}.hdf5") as file:
                expected = np.concatenate(list(file[str(number)][...]), axis=-1)
            np.testing.assert_allclose(array[-1], expected, atol=1e-5)


def test_all_layers_of_a_sentence(embedder: ElmoEmbedder, tiny_model: Elmo):
    array = embedder.embed_sentence(WORDS[0])
    assert array.shape == (3, 5, 12) and array.dtype == np.float32
    np.testing.assert_allclose(array, tiny_model.embed(WORDS[:1], layers="all")[0], atol=1e-6)


def test_state_is_carried_by_default_and_only_then(embedder: ElmoEmbedder, tiny_files):
    first, second = embedder.embed_sentence(WORDS[0]), embedder.embed_sentence(WORDS[0])
    assert not np.allclose(first, second, atol=1e-4)
    embedder.reset_state()
    np.testing.assert_array_equal(embedder.embed_sentence(WORDS[0]), first)
    fresh = ElmoEmbedder(*tiny_files, stateful=False)
    for _ in range(2):
        np.testing.assert_allclose(fresh.embed_sentence(WORDS[0]), first, atol=1e-6)


def test_a_spelled_boundary_is_one(tiny_files):
    embedder = ElmoEmbedder(*tiny_files, stateful=False)
    literal, letters = embedder.embed_batch([["<S>"], ["<s>"]])
    assert not np.allclose(literal, letters, atol=1e-4)
    embedded = embedder.embed_batch([["a", "</S>", "b"], ["a", "</s>", "b"]])
    assert not np.allclose(*embedded, atol=1e-4)


def test_a_batch_without_words_does_not_change_the_state(embedder: ElmoEmbedder, tiny_files):
    other = ElmoEmbedder(*tiny_files)
    assert [array.shape for array in embedder.embed_batch([[], []])] == [(3, 0, 12)] * 2
    assert embedder.embed_sentence([]).shape == (3, 0, 12)
    np.testing.assert_array_equal(embedder.embed_sentence(["a"]), other.embed_sentence(["a"]))


def test_an_empty_sentence_among_others_moves_its_row_on(embedder: ElmoEmbedder, tiny_model: Elmo):
    engine = Elmo(tiny_model.checkpoint(), state="carry")
    assert embedder.embed_batch([["a"], []])[1].shape == (3, 0, 12)
    engine.embed([["a"], []])
    for array, expected in zip(embedder.embed_batch(WORDS[:2]), engine.embed(WORDS[:2], layers="all"), strict=True):
        np.testing.assert_allclose(array, expected, atol=1e-6)


def test_sentences_are_yielded_one_by_one(embedder: ElmoEmbedder, tiny_files):
    other = ElmoEmbedder(*tiny_files)
    arrays = list(embedder.embed_sentences(iter(WORDS), batch_size=2))
    expected = [*other.embed_batch(WORDS[:2]), *other.embed_batch(WORDS[2:])]
    for array, wanted in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


@with_wrong_sentences
def test_input_other_than_lists_of_words_is_an_error(embedder: ElmoEmbedder, sentences, message):
    with pytest.raises(InputError, match=message):
        embedder.embed_batch(sentences)


def test_a_string_is_no_sentence(embedder: ElmoEmbedder):
    with pytest.raises(InputError, match="Sentence 0 is 'I went' of type str"):
        embedder.embed_sentence("I went")


def test_a_batch_size_below_one_is_refused(embedder: ElmoEmbedder):
    with pytest.raises(InputError, match="batch_size is 0"):
        list(embedder.embed_sentences(WORDS, batch_size=0))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has such a device")
def test_a_missing_device_is_named(tiny_files):
    with pytest.raises(ConfigError, match="The device 'cuda:0' cannot be used"):
        ElmoEmbedder(*tiny_files, cuda_device=0)


@pytest.mark.parametrize(("output_format", "shape"), [("all", (3, 2, 12)), ("top", (2, 12)), ("average", (2, 12))])
def test_a_file_with_odd_lines(embedder, tiny_files, tmp_path: Path, output_format, shape):
    source, path = io.StringIO(ODD_LINES), tmp_path / "vectors.hdf5"
    embedder.embed_file(source, path, output_format, batch_size=3)
    assert source.closed
    arrays = list(ElmoEmbedder(*tiny_files).embed_sentences([line.split() for line in ODD_LINES.splitlines()], 3))
    choose = {"all": lambda array: array, "top": lambda array: array[-1], "average": lambda a: a.mean(axis=0)}
    with h5py.File(path) as file:
        assert set(file) == {*map(str, range(7)), "sentence_to_index"}
        assert file["0"].shape == shape and file["0"].dtype == np.float32
        assert file["1"].shape == (*shape[:-2], 0, 12)
        for number, array in enumerate(arrays):
            np.testing.assert_allclose(file[str(number)][...], choose[output_format](array), atol=1e-6)
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    # Of equal sentences the last one counts, as in the original.
    assert index == {"the bank": "3", "": "5", "<S> a/b/c .": "2", ".": "4", "日本語 ' \" \\": "6"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["vectors.hdf5"]


def test_sentences_may_be_left_out(embedder: ElmoEmbedder, tmp_path: Path):
    embedder.embed_file(io.StringIO("a b\nc\n"), tmp_path / "numbers.hdf5", forget_sentences=True)
    with h5py.File(tmp_path / "numbers.hdf5") as file:
        assert set(file) == {"0", "1"}


def test_a_failed_run_leaves_the_old_file(embedder: ElmoEmbedder, tmp_path: Path, monkeypatch):
    path = tmp_path / "vectors.hdf5"
    path.write_bytes(b"old")
    monkeypatch.setattr(embedder, "embed_batch", lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embedder.embed_file(io.StringIO("a\n"), path)
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_file_errors_are_reported(embedder: ElmoEmbedder, tmp_path: Path):
    with pytest.raises(InputError, match="output_format is 'mean'"):
        embedder.embed_file(io.StringIO("a\n"), tmp_path / "v.hdf5", "mean")
    (tmp_path / "latin.txt").write_bytes(b"the bank\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"latin.txt, line 2"):
        embedder.embed_file(tmp_path / "latin.txt", tmp_path / "v.hdf5")


def test_an_input_file_may_be_a_path(embedder: ElmoEmbedder, tiny_files, tmp_path: Path):
    source = tmp_path / "sentences.txt"
    source.write_text("the café\nbank\n", encoding="utf-8")
    embedder.embed_file(str(source), tmp_path / "of_path.hdf5")
    with source.open(encoding="utf-8") as file:
        ElmoEmbedder(*tiny_files).embed_file(file, tmp_path / "of_file.hdf5")
    with h5py.File(tmp_path / "of_path.hdf5") as first, h5py.File(tmp_path / "of_file.hdf5") as second:
        assert set(first) == set(second) == {"0", "1", "sentence_to_index"}
        np.testing.assert_array_equal(first["0"], second["0"])


@pytest.mark.parametrize("dtype", [None, object])
def test_numpy_arrays_of_words_are_sentences(embedder: ElmoEmbedder, tiny_files, dtype):
    batch = [["the", "bank"], ["a", "river"]]
    expected = ElmoEmbedder(*tiny_files).embed_batch(batch)
    np.testing.assert_array_equal(embedder.embed_batch(np.array(batch, dtype=dtype)), expected)
    embedder.reset_state()
    np.testing.assert_array_equal(embedder.embed_batch([np.array(words, dtype=dtype) for words in batch]), expected)
    with pytest.raises(InputError, match="Sentence 0 is 'the' of type str"):
        embedder.embed_batch(np.array(["the", "bank"]))
