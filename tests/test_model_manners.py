"""Arguments of sentence-transformers, moving a model, and display in notebooks."""

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.errors import ConfigError, InputError
from tests.conftest import TINY_CONFIG

TEXTS = ["I went to the bank", "Hello", "", "the river and the money of the bank", "a b c"]


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_the_batch_size_does_not_change_the_vectors(tiny_model, batch_size):
    for one, other in zip(tiny_model.embed(TEXTS), tiny_model.embed(TEXTS, batch_size=batch_size), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    expected = tiny_model.encode(TEXTS)
    np.testing.assert_allclose(tiny_model.encode(TEXTS, batch_size=batch_size), expected, atol=1e-6)


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True, "8"])
def test_a_batch_size_that_is_no_number_of_sentences_is_refused(tiny_model, fused_model, batch_size):
    for call in (tiny_model.embed, tiny_model.encode, fused_model.encode):
        with pytest.raises(InputError, match="batch_size is "):
            call(TEXTS, batch_size=batch_size)


def test_normalized_vectors_have_length_one_and_empty_sentences_stay_zero(tiny_model):
    encoded = tiny_model.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), [1, 1, 0, 1, 1], atol=1e-6)
    words = tiny_model.embed(TEXTS[0], normalize_embeddings=True, layers="all")
    np.testing.assert_allclose(np.linalg.norm(words, axis=-1), 1, atol=1e-6)


def test_to_returns_the_model_which_gives_the_same_vectors():
    model = Elmo.from_config(TINY_CONFIG)
    before = model.embed(TEXTS[0])
    assert model.to("auto") is model
    assert model.device in ("cpu", "cuda", "mps")
    np.testing.assert_allclose(model.embed(TEXTS[0]), before, atol=1e-6)
    with pytest.raises(ConfigError, match=r"The device 'gpu' cannot be used"):
        model.to("gpu")


def test_a_moved_model_keeps_the_state_it_carries():
    first, second = (Elmo(Elmo.from_config(TINY_CONFIG).checkpoint(), state="carry") for _ in range(2))
    for model in (first, second):
        model.embed("I went to the bank")
    second.to("cpu")
    np.testing.assert_array_equal(first.embed("Hello there"), second.embed("Hello there"))


def test_a_model_opens_on_the_best_device(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "model")
    expected = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert Elmo.from_pretrained(tmp_path / "model", device="auto").device == expected


def test_the_progress_bar_is_shown_only_if_requested(tiny_model, monkeypatch):
    import elmo.progress

    shown = []
    monkeypatch.setattr(elmo.progress.StatusBar, "show", lambda bar, done, status: shown.append((bar, status)))
    tiny_model.encode(TEXTS, batch_size=2)
    assert not any(bar._shown for bar, _ in shown)
    shown.clear()
    tiny_model.encode(TEXTS, batch_size=2, show_progress_bar=True)
    assert all(bar._shown for bar, _ in shown) and shown[-1][1].startswith("5 sentences, ")


def test_a_flat_list_of_words_warns_at_the_caller(tiny_model):
    for call in (tiny_model.embed, tiny_model.encode):
        with pytest.warns(UserWarning, match="3 sentences of one word each") as warned:
            vectors = call(["the", "river", "bank"])
        assert len(vectors) == 3 and warned[0].filename == __file__


@pytest.mark.parametrize(
    "sentences",
    [["the", "bank"], [["the", "river", "bank"]], ["the bank", "a river", "mud"], ["你好", "银行", "河"]],
)
def test_other_lists_do_not_warn(tiny_model, sentences):
    tiny_model.embed(sentences)  # a warning is an error in these tests
    tiny_model.encode(sentences)
    tiny_model.similarity(["cat", "dog", "bird"])  # single words on purpose
