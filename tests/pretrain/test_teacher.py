"""The vectors of a teacher belong to their words, in any batch; unsuitable teachers are rejected."""

import json
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from elmo import ConfigError
from elmo.fusion.static_vectors import StaticVectors
from elmo.pretrain.teacher import Teacher, join_static_vectors

from .tiny_encoder import save_decoder, save_encoder, save_roberta

transformers = pytest.importorskip("transformers", reason="the extra distill (transformers) is not installed")

SENTENCES = [["the", "market", "sees", "rivers"], ["bank"], ["the", "cat", "and", "the", "king", "."], []]


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("teacher") / "encoder", transformers)


@pytest.fixture(scope="module")
def teacher(encoder_folder):
    return Teacher(str(encoder_folder))


def test_words_and_sentences_have_the_mean_of_their_pieces(teacher, encoder_folder):
    network = transformers.BertModel.from_pretrained(encoder_folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder_folder)
    text = ["[CLS]", "the", "mark", "##et", "see", "##s", "ri", "##ver", "##s", "[SEP]"]
    with torch.no_grad():
        hidden = network(torch.tensor([tokenizer.convert_tokens_to_ids(text)])).last_hidden_state[0]
    expected = torch.stack([hidden[1], hidden[2:4].mean(0), hidden[4:6].mean(0), hidden[6:9].mean(0)])
    encoded = teacher.encode(SENTENCES[:1])
    torch.testing.assert_close(encoded.words, F.normalize(expected, dim=1))
    torch.testing.assert_close(encoded.sentences, F.normalize(hidden.mean(0), dim=0)[None])
    assert teacher.dim == 12


def test_neighbors_in_the_batch_change_no_vector(teacher, monkeypatch):
    together = teacher.encode(SENTENCES)
    alone = [teacher.encode([words]) for words in SENTENCES]
    torch.testing.assert_close(together.words, torch.cat([encoded.words for encoded in alone]))
    torch.testing.assert_close(together.sentences, torch.cat([encoded.sentences for encoded in alone]))
    assert not together.words.requires_grad
    monkeypatch.setattr("elmo.pretrain.teacher.PIECES_AT_ONCE", 16)
    torch.testing.assert_close(teacher.encode(SENTENCES * 2).words[11:], together.words)


def test_words_without_pieces_and_words_past_the_end_have_no_vector(teacher):
    def known(sentences):
        return teacher.encode(sentences).words.any(dim=1).nonzero().flatten().tolist()

    # A space of no width is nothing to this tokenizer; 36 words and two marks are what 40 positions take.
    assert known([["the", "\u200b", "bank"]]) == [0, 2]
    assert known([["bank"] * 50, ["cat"]]) == [*range(36), 50]


def test_bfloat16_gives_nearly_the_same(teacher, encoder_folder):
    rounded = Teacher(str(encoder_folder), precision=torch.bfloat16)
    cosines = (teacher.encode(SENTENCES).words * rounded.encode(SENTENCES).words).sum(dim=1)
    assert cosines.min() > 0.99 and cosines.max() < 1 - 1e-7


def test_an_encoder_whose_words_begin_with_a_space_finds_them_too(tmp_path):
    teacher = Teacher(str(save_roberta(tmp_path / "roberta", transformers)))
    words = teacher.encode([["the", "market", "sees"], ["long" * 5, "words" * 5]]).words
    assert words.any(dim=1).all()
    torch.testing.assert_close(words[3:], teacher.encode([["long" * 5, "words" * 5]]).words)


def test_an_encoder_with_a_decoder_teaches_by_its_encoder(tmp_path, teacher):
    folder = save_encoder(tmp_path / "t5", transformers)
    config = transformers.T5Config(
        vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    transformers.T5Model(config).save_pretrained(folder)
    encoder = Teacher(str(folder))
    assert encoder.encode(SENTENCES).words.shape == (11, 8)


def test_unsuitable_teachers_are_rejected(tmp_path):
    with pytest.raises(ConfigError, match="is a decoder: its vectors do not depend on"):
        Teacher(str(save_decoder(tmp_path / "decoder", transformers)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="empty could not be opened"):
        Teacher(str(tmp_path / "empty"))
    (tmp_path / "empty" / "config.json").write_text('{"model_type": "unheard-of"}')
    with pytest.raises(ConfigError, match="empty could not be opened ") as caught:
        Teacher(str(tmp_path / "empty"))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="The teacher no such could not be opened"):
        Teacher("no such")
    half = save_encoder(tmp_path / "half", transformers)
    config = json.loads((half / "config.json").read_text())
    (half / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ConfigError, match=r"has no weights for .*layer\.2.* \(16 in all\)"):
        Teacher(str(half))


def test_a_slow_tokenizer_is_refused(encoder_folder, monkeypatch):
    from transformers import AutoTokenizer

    class Slow:
        is_fast = False

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *names, **settings: Slow())
    with pytest.raises(ConfigError, match=r"has a slow tokenizer \(Slow\), which does not report which word"):
        Teacher(str(encoder_folder))


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"A teacher needs transformers: .*\[distill\]"):
        Teacher("anything")


def static_vectors(words, vectors):
    frequencies = np.full(len(words), 1 / len(words))
    return StaticVectors(tuple(words), tuple(words), frequencies, vectors.astype(np.float32), lowercase=True)


def test_words_that_a_corpus_cannot_separate_are_separated_by_a_teacher(teacher):
    words = ["bank", "cat", "king", "tree", "market", "river"]
    vectors = np.eye(6)[[0, 0, 1, 2, 3, 4]]  # the corpus takes bank and cat for the same
    joined = join_static_vectors(static_vectors(words, vectors), teacher)
    assert joined.vectors.shape == (6, 6) and joined.words == tuple(words)
    np.testing.assert_allclose(np.linalg.norm(joined.vectors, axis=1), 1, rtol=1e-5)
    teacher_vectors = teacher.encode([[word] for word in words]).words.numpy()
    teacher_vectors -= teacher_vectors.mean(axis=0)
    teacher_vectors /= np.linalg.norm(teacher_vectors, axis=1, keepdims=True)
    expected = np.concatenate([vectors, teacher_vectors], axis=1)
    expected -= expected.mean(axis=0)  # of rank 5, so that six components hold all of it
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(joined.vectors @ joined.vectors.T, expected @ expected.T, atol=1e-5)
    assert joined.vectors[0] @ joined.vectors[1] < 0.9


def test_a_word_without_pieces_keeps_the_vector_of_the_corpus(teacher):
    words = ["bank", "cat", "\u200b"]
    joined = join_static_vectors(static_vectors(words, np.eye(3)), teacher)
    assert np.isfinite(joined.vectors).all()
    assert joined.vectors[2].any()
