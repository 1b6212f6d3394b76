"""All adapters return the vectors of Elmo.embed."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from elmo import Elmo

from .toys import SENTENCES, needs


def make_docs():
    import spacy
    from spacy.tokens import Doc

    vocabulary = spacy.blank("en").vocab
    return [Doc(vocabulary, words=words) for words in SENTENCES]


def through_spacy(folder):
    import spacy

    import elmo.integrations.spacy  # noqa: F401  # where the package is not installed there are no entry points

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(folder)})
    return [np.stack([token.vector for token in doc]) for doc in nlp.pipe(make_docs())]


def through_tok2vec(folder):
    from elmo.integrations.spacy import build_tok2vec

    layer = build_tok2vec(str(folder))
    layer.initialize()
    return layer.predict(make_docs())


def through_transformers(folder):
    from elmo.integrations.transformers import ElmoModel, ElmoTokenizer

    batch = ElmoTokenizer.from_pretrained(folder)(
        SENTENCES, is_split_into_words=True, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        layers = ElmoModel.from_pretrained(folder)(**batch, output_hidden_states=True).hidden_states
    mean = torch.stack(layers).mean(dim=0).numpy()
    return [mean[number, : len(words)] for number, words in enumerate(SENTENCES)]


def through_tuned_transformers(folder):
    from elmo.integrations.transformers import ElmoModel, ElmoTokenizer

    batch = ElmoTokenizer.from_pretrained(folder)(
        SENTENCES, is_split_into_words=True, padding=True, return_tensors="pt"
    )
    layers = ElmoModel.from_pretrained(folder, tune_bilm=True)(**batch, output_hidden_states=True).hidden_states
    mean = torch.stack(layers).mean(dim=0)
    assert mean.requires_grad
    return [mean[number, : len(words)].detach().numpy() for number, words in enumerate(SENTENCES)]


def through_sentence_transformers(folder):
    from elmo.integrations.sentence_transformers import ElmoModule

    module = ElmoModule(folder)
    vectors = module(module.preprocess(SENTENCES))["token_embeddings"].detach().numpy()
    return [vectors[number, : len(words)] for number, words in enumerate(SENTENCES)]


def through_flair(folder, embedding_mode="average"):
    from flair.data import Sentence

    from elmo.integrations.flair import ElmoEmbeddings

    sentences = [Sentence(words) for words in SENTENCES]
    ElmoEmbeddings(folder, embedding_mode=embedding_mode).embed(sentences)
    return [np.stack([token.embedding.cpu().numpy() for token in sentence]) for sentence in sentences]


def through_onnx(folder):
    import onnxruntime

    from elmo.integrations.onnx import export_onnx
    from elmo.nn.batch import pad_sentences

    model = Elmo.from_pretrained(folder)
    export_onnx(model, folder / "model.onnx")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    padded = pad_sentences(model._indexer, SENTENCES)
    names = ["char_ids", "word_ids"] if "word_input_ids" in padded else ["char_ids"]
    names = names if model.config.characters else ["word_ids"]
    ids = [padded["input_ids"], padded.get("word_input_ids")]
    inputs = {name: tensor.numpy() for name, tensor in zip(names, ids, strict=False)}
    (layers,) = session.run(None, {**inputs, "lengths": padded["attention_mask"].sum(dim=1).numpy()})
    for number, words in enumerate(SENTENCES):
        assert not layers[:, number, len(words) :].any()
    return [layers[:, number, : len(words)].mean(axis=0) for number, words in enumerate(SENTENCES)]


@dataclass(frozen=True)
class Adapter:
    embed: object
    package: str
    tolerance: float = 1e-5


ADAPTERS = [
    Adapter(through_spacy, "spacy"),
    Adapter(through_tok2vec, "spacy"),
    Adapter(through_transformers, "transformers"),
    Adapter(through_tuned_transformers, "transformers"),
    Adapter(through_sentence_transformers, "sentence_transformers"),
    Adapter(through_flair, "flair"),
    Adapter(through_onnx, "onnxruntime"),
]


@pytest.mark.parametrize("tokens", ["characters", "words", "both"])
@pytest.mark.parametrize(
    "adapter", [pytest.param(adapter, marks=needs(adapter.package), id=adapter.embed.__name__) for adapter in ADAPTERS]
)
def test_every_adapter_returns_the_vectors_of_embed(adapter, tokens, model_folders):
    expected = Elmo.from_pretrained(model_folders[tokens]).embed(SENTENCES)
    arrays = adapter.embed(model_folders[tokens])
    for array, reference in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(array, reference, atol=adapter.tolerance)


def test_the_vectors_of_other_sentences_are_other_vectors(model_folders):
    # The comparison above would not notice adapters that return the same vectors for any sentence.
    arrays = Elmo.from_pretrained(model_folders["characters"]).embed(SENTENCES)
    assert np.abs(arrays[0][3] - arrays[3][0]).max() > 1e-3  # "the" in two sentences


MEANING_ADAPTERS = [
    Adapter(through_spacy, "spacy"),
    Adapter(lambda folder: through_flair(folder, embedding_mode="auto"), "flair"),
]


@pytest.mark.parametrize(
    "adapter", [pytest.param(adapter, marks=needs(adapter.package), id=adapter.package) for adapter in MEANING_ADAPTERS]
)
def test_a_model_with_a_context_layer_gives_meanings_in_every_adapter(adapter, fused_model, tmp_path):
    fused_model.save_pretrained(tmp_path / "model")
    expected = fused_model.embed(SENTENCES, layers="meaning")
    for array, reference in zip(adapter.embed(tmp_path / "model"), expected, strict=True):
        np.testing.assert_allclose(array, reference, atol=adapter.tolerance)
