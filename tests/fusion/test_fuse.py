"""A model with a context layer: its vectors, its files, and an unchanged language model."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from elmo import CheckpointError, ConfigError, Elmo, InputError, fuse
from elmo.checkpoint.folder import check_hashes, content_hash, read_folder
from elmo.config import ContextConfig
from elmo.fusion.static_vectors import StaticVectors
from tests.checkpoint import bilm_files, manylangs_files
from tests.language_models import make_language_model

MONEY_BANK = "the [bank] of money and cash"
OTHER_MONEY_BANK = "a loan to the [bank]"
RIVER_BANK = "the river and the [bank] of mud"
# Of the top layer with that of float32, in a network of six dimensions, where rounding is averaged least.
LEAST_COSINES = {"float32": 0.99999, "int8": 0.999}


def test_meaning_concatenates_the_top_layer_and_the_context(tiny_model, topics_corpus):
    fused_model = fuse(tiny_model, topics_corpus, dim=4, focus=2.0, decay=0.0, substitutes=0.0, word=0.0)
    top = fused_model.embed("the bank of money", layers="top")
    context = fused_model.context_vectors("the bank of money")
    meaning = fused_model.embed("the bank of money", layers="meaning")
    assert meaning.shape == (4, fused_model.dim + 4) == (4, *fused_model.word_shape("meaning"))
    top /= np.linalg.norm(top, axis=1, keepdims=True)
    share = fused_model.context.share
    expected = float(top[1] @ top[3] + share * context[1] @ context[3]) / (1 + share)
    assert float(meaning[1] @ meaning[3]) == pytest.approx(expected, abs=1e-4)


def test_the_context_tells_two_meanings_apart(fused_model):
    first, second, other = (
        fused_model.context_vectors(text.replace("[", "").replace("]", ""))[text.split().index("[bank]")]
        for text in (MONEY_BANK, OTHER_MONEY_BANK, RIVER_BANK)
    )
    assert first @ second > first @ other + 0.1


def test_similarity_compares_meanings_by_default(fused_model, tiny_model):
    assert fused_model.similarity(MONEY_BANK, RIVER_BANK) == pytest.approx(
        fused_model.similarity(MONEY_BANK, RIVER_BANK, layers="meaning")
    )
    assert tiny_model.similarity(MONEY_BANK, RIVER_BANK) == pytest.approx(
        tiny_model.similarity(MONEY_BANK, RIVER_BANK, layers="average")
    )
    assert fused_model.similarity(MONEY_BANK, OTHER_MONEY_BANK) > fused_model.similarity(MONEY_BANK, RIVER_BANK)


def test_a_context_is_the_sum_of_its_neighbors_by_the_formula(fused_model, topics_corpus):
    layer = fused_model.checkpoint().context
    words = ["money", "of", "bank", "river", "the", "bank"]
    rows = [layer.words.index(word) for word in words]
    vectors = (layer.arrays["vectors"] * layer.arrays["scales"][:, None])[rows].astype(np.float64)
    weights = layer.arrays["weights"][rows].astype(np.float64)
    expected = np.zeros((6, 4))
    for middle in range(6):
        for other in range(6):
            if other != middle:
                related = layer.config.focus * (vectors[middle] @ vectors[other])
                far = layer.config.decay * (abs(middle - other) - 1)
                expected[middle] += weights[other] * np.exp(related - far) * vectors[other]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True) + layer.config.shrinkage
    assert np.allclose(fused_model.context_vectors([words])[0], expected, atol=1e-5)


def test_a_word_alone_has_no_context(fused_model):
    assert not fused_model.context_vectors([["bank"]])[0].any()
    assert fused_model.similarity("[bank]", "[bank]") == pytest.approx(1)


def test_only_words_within_the_window_count(fused_model):
    window = fused_model.context.window
    far = ["money", *["the"] * window, "bank"]
    near = far[:1] + far[2:]
    other = ["river", *far[1:]]
    assert np.array_equal(fused_model.context_vectors([far])[0][-1], fused_model.context_vectors([other])[0][-1])
    near_other = ["river", *near[1:]]
    found = [fused_model.context_vectors([words])[0][-1] for words in (near, near_other)]
    assert not np.allclose(*found)


def test_long_sentences_are_read_as_short_ones(fused_model):
    draw = np.random.default_rng(0)
    words = draw.choice(["money", "river", "the", "bank", "quay"], 300).tolist()
    whole = fused_model.context_vectors([words])[0]
    window = fused_model.context.window
    for place in (0, 20, 63, 64, 65, 128, 299):
        start = max(0, place - window)
        cut = fused_model.context_vectors([words[start : place + window + 1]])[0]
        assert np.allclose(cut[place - start], whole[place], atol=1e-5)


def test_batches_and_iteration_do_not_change_meaning(fused_model):
    sentences = [["the", "bank"], ["money"], [], ["a", "river", "quay", "of", "mud", "reeds"]]
    alone = [fused_model.embed([words], layers="meaning")[0] for words in sentences]
    together = fused_model.embed(sentences, layers="meaning")
    iterated = list(fused_model.embed_iter(iter(sentences), layers="meaning", read_ahead=2))
    for one, two, three in zip(alone, together, iterated, strict=True):
        assert one.shape == two.shape == three.shape
        assert np.allclose(one, two, atol=1e-5) and np.allclose(one, three, atol=1e-5)


def test_words_outside_the_table_get_a_vector_of_their_own(fused_model):
    first, second = (fused_model.context_vectors([[word, "bank"]])[0][1] for word in ("quay", "zzzz"))
    assert np.linalg.norm(first) > 0.5
    assert not np.allclose(first, second)
    assert np.array_equal(fused_model.context_vectors([["Money", "bank"]])[0][1],
                          fused_model.context_vectors([["money", "bank"]])[0][1])  # fmt: skip


def test_the_language_model_knows_nothing_of_the_context(tiny_model, fused_model):
    assert content_hash(fused_model.checkpoint().weights) == content_hash(tiny_model.checkpoint().weights)
    for layers in ("all", "average", "top"):
        one, two = (model.embed("the bank of money", layers=layers) for model in (tiny_model, fused_model))
        assert np.allclose(one, two, atol=1e-6)


@pytest.fixture(scope="module")
def predicting_models(topics_corpus):
    """A language model with a context layer, and the same with the rows of that layer's tensors in reverse."""
    model = fuse(make_language_model(), topics_corpus, dim=4, focus=2.0, decay=0.0)
    checkpoint = model.checkpoint()
    arrays = {name: np.ascontiguousarray(array[::-1]) for name, array in checkpoint.context.arrays.items()}
    return model, Elmo(replace(checkpoint, context=replace(checkpoint.context, arrays=arrays)))


def test_predictions_are_the_same_with_any_context_layer(predicting_models):
    one, other = predicting_models
    words = ["the", "bank", "of", "money"]
    found = [model.embed([words], layers="meaning")[0][:, model.dim :] for model in (one, other)]
    assert np.abs(found[0] - found[1]).max() > 0.1
    for score, changed in zip(*(model.score([words, ["a", "river"]]) for model in (one, other)), strict=True):
        assert np.array_equal(score.left_to_right, changed.left_to_right)
        assert np.array_equal(score.right_to_left, changed.right_to_left)


def test_a_trained_task_still_knows_its_model_after_fusing(tiny_model, fused_model):
    assert tiny_model.checkpoint().fingerprint() == fused_model.checkpoint().fingerprint()


@pytest.mark.parametrize("precision", list(LEAST_COSINES))
def test_all_precisions_give_meanings(fused_model, precision):
    model = Elmo(fused_model.checkpoint(), precision=precision)
    expected, found = (each.embed("the bank of money", layers="meaning") for each in (fused_model, model))
    # Static vectors of known words are not computed by the network.
    np.testing.assert_allclose(found[:, model.dim :], expected[:, model.dim :], atol=1e-6)
    tops = [vectors[:, : model.dim] for vectors in (expected, found)]
    lengths = [np.linalg.norm(top, axis=1) for top in tops]
    np.testing.assert_allclose(lengths[1], lengths[0], rtol=1e-5)
    assert (np.einsum("td,td->t", *tops) / lengths[0] / lengths[1]).min() > LEAST_COSINES[precision]


def test_a_carried_state_moves_the_top_layer_and_not_the_context(fused_model):
    model = Elmo(fused_model.checkpoint(), state="carry")
    first, second = (model.embed([["the", "bank"]], layers="meaning")[0] for _ in range(2))
    assert not np.allclose(first[:, : model.dim], second[:, : model.dim])
    assert np.array_equal(first[:, model.dim :], second[:, model.dim :])
    model.reset_state()
    model.encode(["the bank"])  # reads no states, so it moves none
    assert np.allclose(model.embed([["the", "bank"]], layers="meaning")[0], first)


def test_saving_and_opening_keeps_the_context_layer(fused_model, tmp_path):
    fused_model.save_pretrained(tmp_path / "model")
    assert {"context.safetensors", "context.txt"} <= {path.name for path in (tmp_path / "model").iterdir()}
    opened = Elmo.from_pretrained(tmp_path / "model")
    assert opened.context == fused_model.context
    assert np.allclose(opened.encode(MONEY_BANK), fused_model.encode(MONEY_BANK), atol=1e-5)
    for model in (opened, pickle.loads(pickle.dumps(opened))):
        found, expected = (each.embed(MONEY_BANK, layers="meaning") for each in (model, fused_model))
        assert np.allclose(found, expected, atol=1e-5)


def test_saving_a_model_without_one_over_it_removes_its_files(fused_model, tiny_model, tmp_path):
    for model in (tiny_model, fused_model, tiny_model):
        model.save_pretrained(tmp_path / "model")
        has_context = model.context is not None
        assert (tmp_path / "model" / "context.txt").exists() == has_context
        assert (tmp_path / "model" / "context.safetensors").exists() == has_context


def test_damage_to_the_context_layer_is_found(fused_model, tmp_path):
    folder = tmp_path / "model"
    fused_model.save_pretrained(folder)
    path = folder / "context.safetensors"
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[-10] ^= 64
    path.write_bytes(changed)
    opened = read_folder(folder)
    with pytest.raises(CheckpointError, match=r"context.safetensors.* is damaged"):
        check_hashes(folder, opened, content_hash(opened.weights))
    path.write_bytes(whole[:100])
    with pytest.raises(CheckpointError, match="is damaged or not a supported safetensors file"):
        read_folder(folder)
    save_file({**load_file_of(whole, tmp_path), "more": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="come from different saves"):
        read_folder(folder)
    path.write_bytes(whole)
    (folder / "context.txt").unlink()
    with pytest.raises(CheckpointError, match=r"context.txt (is missing|could not be read)"):
        read_folder(folder)


def load_file_of(content, folder):
    (folder / "copy").write_bytes(content)
    return load_file(folder / "copy")


def test_unknown_and_impossible_settings_are_refused(fused_model, tmp_path):
    fused_model.save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    header = json.loads(path.read_text())
    header["context"]["settings"]["windows"] = 3
    path.write_text(json.dumps(header))
    with pytest.raises(ConfigError, match=r"unknown key 'windows' \(did you mean 'window'\?\)"):
        read_folder(tmp_path / "model")
    with pytest.raises(ConfigError, match="window is 0; it must be above 0; focus is -1"):
        ContextConfig.from_dict({"num_words": 3, "dim": 9, "window": 0, "focus": -1.0})
    for share in (-1.0, 0.0, float("nan"), float("inf")):
        faults = ContextConfig(3, 16, share=share).faults()
        assert len(faults) == 1 and f"share is {share}; it must be" in faults[0]


def test_tensors_that_do_not_fit_are_refused(fused_model):
    layer = fused_model.checkpoint().context
    with pytest.raises(CheckpointError, match="weights is missing"):
        replace(layer, arrays={name: each for name, each in layer.arrays.items() if name != "weights"})
    with pytest.raises(CheckpointError, match="weights has shape"):
        replace(layer, arrays={**layer.arrays, "weights": np.ones(3, np.float32)})
    with pytest.raises(CheckpointError, match=r"make vectors overflow: word_mean \(nan\)"):
        replace(layer, arrays={**layer.arrays, "word_mean": np.full(6, np.nan, np.float32)})
    with pytest.raises(CheckpointError, match="lists 1 distinct words, but has"):
        replace(layer, words=("a",) * len(layer.words))
    other = {**layer.arrays, "unknown_map": np.zeros((9, 4), np.float32), "word_mean": np.zeros(9, np.float32),
             "word_components": np.zeros((layer.config.num_components, 9), np.float32)}  # fmt: skip
    with pytest.raises(CheckpointError, match="made for a model with word vectors of 9 dimensions"):
        replace(fused_model.checkpoint(), context=replace(layer, arrays=other))


def test_a_model_without_a_context_layer_is_an_error(tiny_model):
    for ask in (
        lambda: tiny_model.embed("the bank", layers="meaning"),
        lambda: tiny_model.similarity("the [bank]", "a [bank]", layers="meaning"),
        lambda: tiny_model.context_vectors("the bank"),
        lambda: tiny_model.encode("the bank", pooling="weighted"),
    ):
        with pytest.raises(InputError, match="model has no context layer"):
            ask()
    assert tiny_model.context is None


def test_sentences_of_one_topic_are_nearer(fused_model):
    money, cash, boat = fused_model.encode(["the bank of money", "a loan of cash", "the boat and the reeds"])
    assert money @ cash > money @ boat
    assert fused_model.encode(["the bank"]).shape[1:] == fused_model.sentence_shape() == (4 + 6,)


def test_pooling_is_weighted_only_if_no_layers_are_given(fused_model, tiny_model):
    text = "the bank of money"
    for given, same in (
        ({}, fused_model.encode(text, pooling="weighted")),
        ({"layers": "top"}, fused_model.encode(text, pooling="mean", layers="top")),
        ({"pooling": "mean"}, tiny_model.encode(text)),
    ):
        assert np.allclose(fused_model.encode(text, **given), same, atol=1e-6)
    with pytest.raises(InputError, match="pooling is 'weighted', which takes no layers"):
        fused_model.encode(text, pooling="weighted", layers="top")
    with pytest.raises(InputError, match="pooling is 'sum'"):
        fused_model.encode(text, pooling="sum")
    assert not fused_model.encode([[], ["bank"]])[0].any()


def write_official(folder):
    options = bilm_files.make_options()
    return bilm_files.write_model(folder, options, bilm_files.make_variables(options))


def write_manylangs(folder):
    settings = manylangs_files.make_settings()
    return manylangs_files.write_model(folder, settings, *manylangs_files.make_state_dicts(settings))


@pytest.mark.parametrize(("format", "write"), [("hdf5", write_official), ("manylangs", write_manylangs)])
def test_published_models_can_have_a_context_layer(topics_corpus, tmp_path, format, write):
    source = Elmo.from_pretrained(write(tmp_path / "published"))
    assert source.checkpoint().origin["format"] == format
    fuse(source, topics_corpus, dim=4, focus=2.0, decay=0.0).save_pretrained(tmp_path / "fused")
    fused = Elmo.from_pretrained(tmp_path / "fused")
    sentence = [["the", "bank", "of", "money", "quay"]]
    np.testing.assert_allclose(
        fused.embed(sentence, layers="all")[0], source.embed(sentence, layers="all")[0], atol=1e-6
    )
    assert fused.embed(sentence, layers="meaning")[0].shape == (5, source.dim + 4)
    one, two, other = (
        fused.context_vectors([text.split()])[0][text.split().index("bank")]
        for text in ("the bank of money and cash", "a loan to the bank", "the river and the bank of mud")
    )
    assert one @ two > one @ other + 0.1
    # Words outside the table are estimated from the layer 0 of this very model.
    assert np.linalg.norm(fused.context_vectors([["quay", "bank"]])[0][1]) > 0.5
    assert fused.encode(["the bank of money"]).shape == (1, 4 + source.dim // 2)


def test_static_vectors_of_a_file_take_the_place_of_the_corpus(tiny_model, topics_corpus, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("money 1 0.1 0\ncash 0.9 0 0\nriver 0 1 0\nwater 0.1 0.9 0\nthe 0 0 1\n")
    model = fuse(tiny_model, topics_corpus, vectors=path, focus=2.0, decay=0.0)
    assert (model.context.num_words, model.context.dim) == (5, 3)
    one, two, other = (model.context_vectors([[word, "the"]])[0][1] for word in ("money", "cash", "river"))
    assert one @ two > 0.5 > one @ other
    with pytest.raises(InputError, match="dim is 3, but `vectors` are given, .*"):
        fuse(tiny_model, topics_corpus, vectors=path, dim=3)


def test_a_sentence_head_is_kept_with_its_static_vectors_only(topics_corpus):
    model = Elmo.from_pretrained()
    layer = model.checkpoint().context
    vectors = np.float32(layer.arrays["vectors"]) * layer.arrays["scales"][:, None]
    frequencies = np.full(len(layer.words), 1 / len(layer.words))
    same = StaticVectors(layer.words, layer.words, frequencies, vectors, lowercase=layer.config.lowercase)
    assert fuse(model, topics_corpus, vectors=same, share=0.5).checkpoint().sentence is not None
    assert fuse(model, topics_corpus, dim=4).checkpoint().sentence is None
