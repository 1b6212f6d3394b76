"""POST /v1/embeddings, /embed and /similarity: vectors of texts and of words."""

import base64
import math
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter

from elmo.model import Array
from elmo.serve import schemas
from elmo.serve.batching import Work
from elmo.serve.errors import JsonResponse, Problem, describe_errors
from elmo.serve.requests import CallOf, JsonRoute, TokenizedSentence

router = APIRouter(route_class=JsonRoute, tags=["vectors"], responses=describe_errors())


@router.post("/v1/embeddings", response_model=schemas.EmbeddingsResponse)
async def encode_texts(body: schemas.EmbeddingsRequest, call: CallOf) -> JsonResponse:
    """Return the vector of each text, as OpenAI's clients ask for it."""
    model = call.served.model(body.model)
    (dim,) = model.elmo.sentence_shape()
    if body.dimensions not in (None, dim):
        raise Problem(
            422,
            "invalid_request",
            f"dimensions is {body.dimensions}, but the vectors of {model.name} have {dim} dimensions and are not "
            "truncated; leave it out.",
            field="dimensions",
        )
    read = await call.tokenize(body.input, "input", model.elmo)
    call.check_values(len(read), dim, "input")
    work = Work(("encode", model.name), lambda sentences: list(model.elmo.encode(sentences)))
    vectors = await call.compute(work, [sentence.words for sentence in read])
    num_words = sum(len(sentence.words) for sentence in read)
    data = [
        schemas.Embedding(index=index, embedding=_to_json(vector, body.encoding_format))
        for index, vector in enumerate(vectors)
    ]
    usage = schemas.Usage(prompt_tokens=num_words, total_tokens=num_words)
    return JsonResponse(schemas.EmbeddingsResponse(data=data, model=model.name, usage=usage))


@router.post("/embed", response_model=schemas.EmbedResponse)
async def embed_sentences(body: schemas.EmbedRequest, call: CallOf) -> JsonResponse:
    """Return the vectors of words in their sentences, by any layer or mix of layers."""
    model = call.served.model(body.model)
    layers: Any = body.layers
    values_per_word = math.prod(model.elmo.word_shape(layers))
    read = await call.tokenize(body.sentences, "sentences", model.elmo, on_spaces=body.split_on_spaces)
    call.check_values(sum(len(sentence.words) for sentence in read), values_per_word, "sentences")
    work = Work(("embed", model.name, layers), lambda sentences: model.elmo.embed(sentences, layers=layers))
    arrays = await call.compute(work, [sentence.words for sentence in read])
    sentences = [
        schemas.EmbeddedSentence(
            words=_place_words(sentence), shape=list(array.shape), vectors=_to_json(array, body.encoding_format)
        )
        for sentence, array in zip(read, arrays, strict=True)
    ]
    return JsonResponse(schemas.EmbedResponse(model=model.name, sentences=sentences))


@router.post("/similarity", response_model=schemas.SimilarityResponse)
async def compare_words(body: schemas.SimilarityRequest, call: CallOf) -> JsonResponse:
    """Return the cosine of a word in one sentence and a word in another."""
    model = call.served.model(body.model)
    layers: Any = body.layers
    if layers == "all":
        raise Problem(
            422,
            "invalid_request",
            "layers is all, but two vectors are compared; choose meaning, average, top, concat, one layer or "
            "weights. cosine_by_layer reports each layer anyway.",
            field="layers",
        )
    (words_a, span_a), (words_b, span_b) = await call.point(
        model.elmo,
        ("sentence_a", body.sentence_a, body.index_a),
        ("sentence_b", body.sentence_b, body.index_b),
    )
    compare = partial(model.elmo.compare, words_a, words_b, index_a=span_a, index_b=span_b, layers=layers)
    found = await call.run(compare, words_a + words_b)
    return JsonResponse(schemas.SimilarityResponse(model=model.name, **vars(found)))


def _place_words(sentence: TokenizedSentence) -> list[schemas.WordOffsets]:
    if sentence.offsets is None:
        return [schemas.WordOffsets(text=word) for word in sentence.words]
    placed = zip(sentence.words, sentence.offsets, strict=True)
    return [schemas.WordOffsets(text=word, start=start, end=end) for word, (start, end) in placed]


def _to_json(array: Array, encoding: str) -> Array | str:
    """Return an array for the JSON writer, or the base64 of its bytes as little-endian float32."""
    if encoding == "base64":
        return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").data).decode("ascii")
    return np.ascontiguousarray(array)
