"""Vectors over HTTP are those of the model, in OpenAI's format and in ours."""

import base64
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

SENTENCES = ["I went to the bank", "by the river", "", "the money . the bank went to the river I went"]


def decode(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def test_embeddings_are_those_of_encode(client, language_model):
    response = client.post("/v1/embeddings", json={"input": SENTENCES, "model": "tiny"}).json()
    assert response["object"] == "list" and response["model"] == "tiny"
    assert [entry["index"] for entry in response["data"]] == [0, 1, 2, 3]
    vectors = np.array([entry["embedding"] for entry in response["data"]], dtype=np.float32)
    np.testing.assert_allclose(vectors, language_model.encode(SENTENCES), atol=1e-6)
    assert response["usage"] == {"prompt_tokens": 19, "total_tokens": 19}


def test_one_string_is_one_text_and_base64_is_float32(client, language_model):
    body = {"input": "I went to the bank", "encoding_format": "base64"}
    (entry,) = client.post("/v1/embeddings", json=body).json()["data"]
    np.testing.assert_allclose(decode(entry["embedding"]), language_model.encode("I went to the bank"), atol=1e-6)


@pytest.mark.parametrize("layers", ["average", "top", "all", "concat", 0, -1, [0.5, 0.25, 2]])
@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_word_vectors_by_any_layer(client, language_model, layers, encoding):
    body = {"sentences": SENTENCES, "layers": layers, "encoding_format": encoding}
    response = client.post("/embed", json=body).json()
    expected = language_model.embed(SENTENCES, layers=layers)
    for sentence, array in zip(response["sentences"], expected, strict=True):
        assert tuple(sentence["shape"]) == array.shape
        vectors = (
            decode(sentence["vectors"]) if encoding == "base64" else np.array(sentence["vectors"], dtype=np.float32)
        )
        np.testing.assert_allclose(vectors.reshape(array.shape), array, atol=1e-6)


def test_phrases_have_the_vectors_of_embed_spans(client, language_model):
    spans = [[(2, 5), (0, 1)], [], [(1, 3)]]
    sentences = ["I went to the bank", "by the river", "the money . the bank"]
    response = client.post("/embed", json={"sentences": sentences, "spans": spans, "layers": "top"}).json()
    for text, ranges, sentence in zip(sentences, spans, response["sentences"], strict=True):
        expected = language_model.embed_spans(text, ranges, layers="top")
        assert sentence["shape"] == list(expected.shape) and len(sentence["words"]) in (3, 5)
        np.testing.assert_allclose(np.array(sentence["vectors"]).reshape(expected.shape), expected, atol=1e-6)


@pytest.mark.parametrize(("spans", "status"), [([[(0, 1)], []], 422), ([[(1, 4)]], 400), ([[(1, 1)]], 400)])
def test_spans_outside_the_sentence_are_refused(client, spans, status):
    response = client.post("/embed", json={"sentences": ["by the river"], "spans": spans})
    assert response.status_code == status and "span" in response.json()["error"]["message"]


def test_words_have_offsets(client):
    text = "I don't bank."
    (sentence,) = client.post("/embed", json={"sentences": text}).json()["sentences"]
    assert [word["text"] for word in sentence["words"]] == ["I", "don", "'t", "bank", "."]
    assert all(text[word["start"] : word["end"]] == word["text"] for word in sentence["words"])
    (sentence,) = client.post("/embed", json={"sentences": [["New York", ""]]}).json()["sentences"]
    assert sentence["words"] == [{"text": text, "start": None, "end": None} for text in ("New York", "")]
    (sentence,) = client.post("/embed", json={"sentences": "don't!", "split_on_spaces": True}).json()["sentences"]
    assert sentence["words"] == [{"text": "don't!", "start": 0, "end": 6}]


@pytest.mark.parametrize("layers", ["average", "top", "concat", 1, [0.1, 0.2, 3]])
def test_similarity_is_that_of_the_model(client, language_model, layers):
    a, b = "I went to the [bank]", "the [river bank] ."
    response = client.post("/similarity", json={"sentence_a": a, "sentence_b": b, "layers": layers}).json()
    assert response["cosine"] == pytest.approx(language_model.similarity(a, b, layers=layers), abs=1e-6)
    by_layer = [language_model.similarity(a, b, layers=layer) for layer in range(3)]
    assert response["cosine_by_layer"] == pytest.approx(by_layer, abs=1e-6)
    assert (response["words_a"], response["words_b"]) == (["bank"], ["river", "bank"])


def test_similarity_by_index(client, language_model):
    body = {"sentence_a": ["the", "bank"], "index_a": 1, "sentence_b": "to the river", "index_b": -1}
    response = client.post("/similarity", json=body).json()
    expected = language_model.similarity("the [bank]", "to the [river]")
    assert response["cosine"] == pytest.approx(expected, abs=1e-6)


def test_many_clients_at_once_each_get_their_own(client, language_model):
    words = ["I", "went", "to", "the", "bank", "river", "money", "."]
    texts = [" ".join(words[(number * 7 + k) % 8] for k in range(1 + number % 23)) for number in range(60)]
    expected = language_model.encode(texts)

    def ask(number: int) -> None:
        if number % 3:
            (entry,) = client.post("/v1/embeddings", json={"input": texts[number]}).json()["data"]
            np.testing.assert_allclose(entry["embedding"], expected[number], atol=1e-5)
        else:
            (sentence,) = client.post("/embed", json={"sentences": texts[number]}).json()["sentences"]
            np.testing.assert_allclose(np.mean(sentence["vectors"], axis=0), expected[number], atol=1e-5)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(len(texts))))


@pytest.mark.parametrize(
    ("path", "body", "field", "message"),
    [
        ("/v1/embeddings", [], None, "The body must be a JSON object"),
        ("/v1/embeddings", None, None, "The body must be a JSON object"),
        ("/v1/embeddings", {}, "input", "input: Field required."),
        ("/v1/embeddings", {"input": []}, "input", "at least 1 item"),
        ("/v1/embeddings", {"input": [5, 7]}, "input", "input[0]: Input should be a valid string"),
        ("/v1/embeddings", {"input": [[5]]}, "input", "input[0]: Input should be a valid string"),
        ("/v1/embeddings", {"input": ["a", None]}, "input", "input[1]: Input should be a valid string"),
        (
            "/v1/embeddings",
            {"input": "a", "dimensions": 5},
            "dimensions",
            "tiny has 12; leave it out",
        ),
        ("/v1/embeddings", {"input": "a", "encoding_format": "x"}, "encoding_format", "'float' or 'base64'"),
        ("/v1/embeddings", {"input": "a", "inputs": 1}, "inputs", "inputs: Extra inputs are not permitted."),
        ("/embed", {"sentences": [["a", 5]]}, "sentences", "sentences[0]: Input should be a valid string"),
        ("/embed", {"sentences": "a", "layers": "most"}, "layers", "Input should be 'auto', 'average'"),
        ("/embed", {"sentences": "a", "layers": [1e300]}, "layers", "less than or equal to 1000000"),
        ("/similarity", {"sentence_a": "[a]", "sentence_b": "[b]", "layers": "all"}, "layers", "are compared"),
        ("/substitutes", {"sentence": "[a]", "top_k": 0}, "top_k", "greater than or equal to 1"),
    ],
)
def test_a_wrong_field_is_named(client, path, body, field, message):
    response = client.post(path) if body is None else client.post(path, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "invalid_request", field)
    assert message in error["message"]


@pytest.mark.parametrize("body", [b"{", b" ", b"\xff\xfe", b'{"input": "\\ud800"}', b"[" * 100_000, b'{"input": NaN'])
def test_broken_json_is_refused(client, body):
    response = client.post("/v1/embeddings", content=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "message"),
    [
        ("/embed", {"sentences": "a", "layers": 7}, 400, "invalid_input", "a number from 0 to 2"),
        ("/embed", {"sentences": "a", "layers": [1, 2]}, 400, "invalid_input", "each of the 3 layers"),
        ("/similarity", {"sentence_a": "a", "sentence_b": "[b]"}, 400, "invalid_input", "has 0 marked words"),
        ("/v1/embeddings", {"input": "a", "model": "ada"}, 404, "model_not_found", "available models: tiny."),
        ("/nothing", {}, 404, "not_found", "POST /nothing: Not Found; see /docs"),
        ("/tasks/ner", {}, 404, "not_found", "POST /tasks/ner: Not Found"),
        ("/models", {}, 405, "method_not_allowed", "POST /models: Method Not Allowed"),
    ],
)
def test_other_mistakes_have_the_same_shape(client, path, body, status, code, message):
    response = client.post(path, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert message in response.json()["error"]["message"]
