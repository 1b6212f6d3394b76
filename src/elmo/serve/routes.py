"""The routes: vectors of texts and words, language models, tasks, and information about the server."""

import asyncio
import base64
import math
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from elmo.analysis import map_senses
from elmo.analysis.occurrences import QUERY_SOURCE, Occurrence, join_words
from elmo.inference.layers import cosine
from elmo.model import Array
from elmo.serve import schemas
from elmo.serve.errors import ApiError, JsonResponse
from elmo.serve.service import ServiceOf
from elmo.tasks.examples import describe_prediction

router, tasks_router, health_router = APIRouter(), APIRouter(), APIRouter()
_LIMITS = ("max_body_bytes", "max_words", "max_values", "max_seconds")


@router.post("/v1/embeddings")
async def encode_texts(body: schemas.EmbeddingsRequest, service: ServiceOf) -> JsonResponse:
    """Return one vector per text, in the format of OpenAI's embeddings API."""
    model = service.served.model(body.model, body.input)
    dim = model.elmo.sentence_shape()[0]
    if body.dimensions not in (None, dim):
        message = f"dimensions is {body.dimensions}, but {model.name} has {dim}; leave it out."
        raise ApiError(422, "invalid_request", message, field="dimensions")
    sentences = _words(await service.tokenize(body.input, "input", model.elmo))
    service.check_values(len(sentences), dim, "input")
    vectors = await service.compute(
        ("encode", model.name), lambda sentences: [*model.elmo.encode(sentences)], sentences
    )
    num_words = sum(map(len, sentences))
    data = [
        {"object": "embedding", "index": index, "embedding": _to_json(vector, body.encoding_format)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": num_words, "total_tokens": num_words}
    return JsonResponse({"object": "list", "data": data, "model": model.name, "usage": usage})


@router.post("/embed")
async def embed_sentences(body: schemas.EmbedRequest, service: ServiceOf) -> JsonResponse:
    """Return the vectors of words in their sentences, from any layer or mix of layers.

    Each of `sentences` has its `words` (text, start, end), and their `vectors`: nested lists, or base64 of an array of
    `shape`.
    """
    model = service.served.model(body.model, body.sentences)
    layers: Any = body.layers
    values_per_word = math.prod(model.elmo.word_shape(layers))
    tokenized = await service.tokenize(body.sentences, "sentences", model.elmo, on_spaces=body.split_on_spaces)
    words = _words(tokenized)
    if body.spans is not None:
        if len(body.spans) != len(words):
            message = f"spans has {len(body.spans)} lists for {len(words)} sentences; send one list per sentence."
            raise ApiError(422, "invalid_request", message, field="spans")
        service.check_values(sum(map(len, body.spans)), values_per_word, "spans")
        embed = partial(model.elmo.embed_spans, words, body.spans, layers=layers)
        arrays: Any = await service.run(embed, words)
    else:
        service.check_values(sum(map(len, words)), values_per_word, "sentences")
        arrays = await service.compute(
            ("embed", model.name, layers), lambda sentences: model.elmo.embed(sentences, layers=layers), words
        )
    sentences = [
        {
            "words": [{"text": text, "start": start, "end": end} for text, start, end in sentence],
            "shape": array.shape,
            "vectors": _to_json(array, body.encoding_format),
        }
        for sentence, array in zip(tokenized, arrays, strict=True)
    ]
    return JsonResponse({"model": model.name, "sentences": sentences})


@router.post("/similarity")
async def compare_words(body: schemas.SimilarityRequest, service: ServiceOf) -> JsonResponse:
    """Return the `cosine` of two words in their sentences, and their `cosine_by_layer`.

    Layer 0 does not depend on the sentences.
    """
    model = service.served.model(body.model, [body.sentence_a, body.sentence_b])
    layers: Any = body.layers
    if layers == "all":
        message = "layers is all, but two vectors are compared; choose another. cosine_by_layer reports each layer."
        raise ApiError(422, "invalid_request", message, field="layers")
    (words_a, span_a), (words_b, span_b) = await service.locate_words(
        model.elmo,
        ("sentence_a", body.sentence_a, body.index_a),
        ("sentence_b", body.sentence_b, body.index_b),
    )

    def compare(layers: Any) -> Any:
        vectors_a, vectors_b = model.elmo.embed_spans([words_a, words_b], [[span_a], [span_b]], layers=layers)
        return cosine(vectors_a[0], vectors_b[0]).tolist()

    def compare_all() -> dict[str, Any]:
        return {"cosine": compare(layers), "cosine_by_layer": compare("all")}

    values = await service.run(compare_all, [words_a, words_b])
    words = {"words_a": words_a[slice(*span_a)], "words_b": words_b[slice(*span_b)]}
    return JsonResponse({"model": model.name, **values, **words})


@router.post("/substitutes")
async def find_substitutes(body: schemas.SubstitutesRequest, service: ServiceOf) -> JsonResponse:
    """Return substitutes for a word in its sentence, best first.

    Each of `substitutes` has a `word` and its `log_probability` among the candidates.
    """
    model = service.served.model(body.model, [body.sentence])
    ((words, span),) = await service.locate_words(model.elmo, ("sentence", body.sentence, body.index))
    find = partial(
        model.elmo.substitutes, words, span,
        top_k=body.top_k, punctuation=body.punctuation, same_word=body.same_word,
        add_period=isinstance(body.sentence, str),
    )  # fmt: skip
    substitutes = await service.run(find, [words])
    return JsonResponse({"model": model.name, "words": words, "index": span[0], "substitutes": substitutes})


@router.post("/score")
async def score_sentences(body: schemas.ScoreRequest, service: ServiceOf) -> JsonResponse:
    """Return how well the language model predicts each word.

    Each of `sentences` has its `perplexity`, and natural log probabilities: of its words in `left_to_right` and
    `right_to_left`, and of its boundaries in `end` and `begin`. `is_unknown` marks words outside the vocabulary.
    """
    model = service.served.model(body.model, body.sentences)
    tokenized = await service.tokenize(body.sentences, "sentences", model.elmo, on_spaces=body.split_on_spaces)
    scores = await service.compute(("score", model.name), model.elmo.score, _words(tokenized))
    sentences = [{**vars(score), "perplexity": score.perplexity} for score in scores]
    return JsonResponse({"model": model.name, "sentences": sentences})


@router.post("/senses")
async def find_senses(body: schemas.SensesRequest, service: ServiceOf) -> JsonResponse:
    """Return the senses of a word that is marked in several sentences, and a map of them for each layer."""
    model = service.served.model(body.model, body.sentences)
    located = await service.locate_words(model.elmo, *[("sentences", sentence, None) for sentence in body.sentences])
    occurrences = [
        Occurrence(join_words(words, QUERY_SOURCE, number), *span) for number, (words, span) in enumerate(located)
    ]
    find = partial(map_senses, model.elmo, occurrences, layers=body.layers, num_senses=body.num_senses)
    senses = await service.run(find, [words for words, _ in located])
    return JsonResponse({"model": model.name, **senses.to_dict()})


@tasks_router.post("/tasks/{name}")
async def predict(name: str, body: schemas.TaskRequest, service: ServiceOf) -> JsonResponse:
    """Return the predictions of a task, one per item.

    Tagging: words, tags, spans of words, and the character offsets of words if the item is a text. Other families:
    label and probabilities, score, answer, or senses.
    """
    task = service.served.task(name)
    examples = await asyncio.to_thread(task.read_items, body.items)
    texts = [text for example in examples for text in task.texts(example)]
    service.check_words(texts, "items")
    predicted = await service.run(lambda: list(task.predict_examples(examples)), texts)
    predictions = [
        describe_prediction(prediction, item if isinstance(item, str) else None)
        for item, prediction in zip(body.items, predicted, strict=True)
    ]
    return JsonResponse({"task": name, "family": task.family, "predictions": predictions})


@router.get("/models")
async def list_served(service: ServiceOf) -> JsonResponse:
    """Return the models and tasks that are served, and the limits of a request."""
    models = [model.describe() for model in service.served.models.values()]
    limits = {name: getattr(service.settings, name) for name in _LIMITS}
    return JsonResponse({"models": models, "tasks": service.served.describe_tasks(), "limits": limits})


@router.get("/v1/models")
async def list_models(service: ServiceOf) -> JsonResponse:
    """Return the models in OpenAI's format."""
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "elmo"} for name in service.served.models]
    return JsonResponse({"object": "list", "data": data})


@router.get("/metrics", response_class=Response)
async def report_metrics(service: ServiceOf) -> Response:
    """Return the metrics for Prometheus."""
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@health_router.get("/health")
async def check_health(service: ServiceOf) -> JsonResponse:
    """Return 200 while the server can compute."""
    if not service.batcher.is_alive:
        raise ApiError(503, "not_alive", "The computing thread has ended; restart the server.")
    return JsonResponse({"status": "ok"})


def _words(sentences: list[list[tuple[str, Any, Any]]]) -> list[list[str]]:
    return [[text for text, _, _ in sentence] for sentence in sentences]


def _to_json(array: Array, encoding: str) -> Array | str:
    """Return an array for JSON serialization, or the base64 of its little-endian float32 bytes."""
    if encoding == "base64":
        return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").data).decode("ascii")
    return np.ascontiguousarray(array)
