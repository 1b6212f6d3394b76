"""A model with a context layer over HTTP: `meaning` is the default and can be selected."""

import numpy as np
import pytest

from elmo import fuse
from tests.serve.conftest import serving

A, B = "I went to the [bank] of money", "the [bank] of the river"


@pytest.fixture(scope="module")
def fused(language_model, topics_corpus):
    return fuse(language_model, topics_corpus, dim=4)


@pytest.fixture(scope="module")
def fused_client(fused):
    with serving(fused) as client:
        yield client


def test_similarity_goes_by_meaning(fused_client, fused):
    body = {"sentence_a": A, "sentence_b": B}
    response = fused_client.post("/similarity", json=body).json()
    assert response["cosine"] == pytest.approx(fused.similarity(A, B, layers="meaning"), abs=1e-5)
    assert len(response["cosine_by_layer"]) == fused.num_layers
    named = fused_client.post("/similarity", json={**body, "layers": "meaning"}).json()
    assert named["cosine"] == response["cosine"]
    top = fused_client.post("/similarity", json={**body, "layers": "top"}).json()
    assert top["cosine"] == pytest.approx(fused.similarity(A, B, layers="top"), abs=1e-5)


def test_word_vectors_by_meaning(fused_client, fused):
    (sentence,) = fused_client.post("/embed", json={"sentences": "the bank", "layers": "meaning"}).json()["sentences"]
    expected = fused.embed("the bank", layers="meaning")
    assert tuple(sentence["shape"]) == expected.shape == (2, fused.dim + 4)
    np.testing.assert_allclose(np.array(sentence["vectors"], dtype=np.float32), expected, atol=1e-5)


def test_embeddings_are_weighted_and_have_their_own_size(fused_client, fused):
    (dim,) = fused.sentence_shape()
    response = fused_client.post("/v1/embeddings", json={"input": "the bank", "dimensions": dim}).json()
    np.testing.assert_allclose(response["data"][0]["embedding"], fused.encode("the bank"), atol=1e-5)
    refused = fused_client.post("/v1/embeddings", json={"input": "the bank", "dimensions": dim + 1})
    assert f"has {dim}" in refused.json()["error"]["message"]


def test_models_report_their_context_layer(fused_client, client):
    for test_client, expected in ((fused_client, True), (client, False)):
        assert test_client.get("/models").json()["models"][0]["has_context"] is expected


def test_a_model_without_one_refuses_meaning_and_compares_the_average(client, language_model):
    body = {"sentence_a": A, "sentence_b": B}
    response = client.post("/similarity", json=body).json()
    assert response["cosine"] == pytest.approx(language_model.similarity(A, B, layers="average"), abs=1e-5)
    for path, request in (("/similarity", body), ("/embed", {"sentences": "the bank"})):
        refused = client.post(path, json={**request, "layers": "meaning"})
        assert refused.status_code == 400
        assert "this model has no context layer" in refused.json()["error"]["message"]
