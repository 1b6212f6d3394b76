"""POST /v1/embeddings, /embed and /similarity: vectors of texts and of words."""

import base64
import math
from typing import Any

import numpy as np
from fastapi import FastAPI
from starlette.requests import Request as HttpRequest

from elmo.inference.layers import LayerChoice, choose_layers, cosine
from elmo.model import Array
from elmo.serve.answers import EmbedAnswer, EmbeddingsAnswer, SimilarityAnswer
from elmo.serve.batching import Work
from elmo.serve.context import Context
from elmo.serve.describing import taking
from elmo.serve.json_answer import JsonAnswer
from elmo.serve.problems import Problem
from elmo.serve.schemas import EmbeddingsRequest, EmbedRequest, SimilarityRequest
from elmo.serve.sentences import check_values, read_sentences
from elmo.serve.served import ServedModel
from elmo.text.marks import read_pointed
from elmo.text.tokenize import tokenize

_TWO_BANKS = {
    "sentence_a": "I went to the [bank] to deposit money",
    "sentence_b": "I sat by the [bank] of the river",
}


def add_vector_routes(app: FastAPI, context: Context) -> None:
    """Add the routes to an application."""

    @app.post(
        "/v1/embeddings",
        tags=["vectors"],
        summary="Vectors of texts, as OpenAI's clients ask for them",
        **taking(EmbeddingsRequest, EmbeddingsAnswer, example={"input": ["I went to the bank", "by the river"]}),
    )
    async def embeddings(request: HttpRequest) -> JsonAnswer:
        asked = await context.read(request, EmbeddingsRequest)
        model = context.served.model(asked.model)
        (dim,) = model.elmo.sentence_shape()
        if asked.dimensions not in (None, dim):
            raise Problem(
                422,
                "invalid_request",
                f"dimensions is {asked.dimensions}, but the vectors of {model.name} have {dim} values "
                "and are not cut; leave it out.",
                field="dimensions",
            )
        read = await read_sentences(asked.input, context.settings, field="input")
        check_values(len(read), dim, context.settings)
        vectors = await context.compute(request, _encoding(model), [each.words for each in read])
        num_words = sum(len(each.words) for each in read)
        in_base64 = asked.encoding_format == "base64"
        return JsonAnswer(
            {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": _to_base64(row) if in_base64 else row}
                    for index, row in enumerate(vectors)
                ],
                "model": model.name,
                "usage": {"prompt_tokens": num_words, "total_tokens": num_words},
            }
        )

    @app.post(
        "/embed",
        tags=["vectors"],
        summary="Vectors of words in their sentences, by any layer or mix",
        **taking(EmbedRequest, EmbedAnswer, example={"sentences": ["I went to the bank"], "layers": "top"}),
    )
    async def embed(request: HttpRequest) -> JsonAnswer:
        asked = await context.read(request, EmbedRequest)
        model = context.served.model(asked.model)
        shape = model.elmo.word_shape(asked.layers)  # type: ignore[arg-type]
        read = await read_sentences(
            asked.sentences, context.settings, field="sentences", on_spaces=asked.split_on_spaces
        )
        num_words = sum(len(each.words) for each in read)
        check_values(num_words, math.prod(shape), context.settings)
        arrays = await context.compute(request, _embedding(model, asked.layers), [each.words for each in read])
        in_base64 = asked.encoding_format == "base64"
        return JsonAnswer(
            {
                "model": model.name,
                "sentences": [
                    {
                        "words": each.describe(),
                        "shape": list(array.shape),
                        "vectors": _to_base64(array) if in_base64 else np.ascontiguousarray(array),
                    }
                    for each, array in zip(read, arrays, strict=True)
                ],
            }
        )

    @app.post(
        "/similarity",
        tags=["vectors"],
        summary="How alike a word of one sentence and a word of another are",
        **taking(SimilarityRequest, SimilarityAnswer, example=_TWO_BANKS),
    )
    async def similarity(request: HttpRequest) -> JsonAnswer:
        asked = await context.read(request, SimilarityRequest)
        model = context.served.model(asked.model)
        if asked.layers == "all":
            raise Problem(
                422,
                "invalid_request",
                "layers is all, but two vectors are compared; choose meaning, average, top, concat, one layer or "
                "weights. cosine_by_layer tells of each layer anyway.",
                field="layers",
            )
        layers = model.elmo.meaning_layers if asked.layers is None else asked.layers
        is_meaning = layers == "meaning"
        choice = choose_layers(layers, model.elmo.num_layers, has_context=model.elmo.context is not None)  # type: ignore[arg-type]
        texts = [asked.sentence_a, asked.sentence_b]
        await read_sentences(texts, context.settings, field="sentence")
        pointed = [
            read_pointed(text, index, tokenize, name=name)
            for text, index, name in zip(
                texts, (asked.index_a, asked.index_b), ("index_a", "index_b"), strict=True
            )
        ]
        arrays = await context.compute(request, _embedding(model, "all"), [words for words, _ in pointed])
        first, second = (
            array[:, start:end].mean(axis=1) for array, (_, (start, end)) in zip(arrays, pointed, strict=True)
        )
        compared = [_mix(choice, first), _mix(choice, second)]
        if is_meaning:
            meanings = model.elmo.add_context([words for words, _ in pointed], [array[-1] for array in arrays])
            compared = [
                vectors[start:end].mean(axis=0)
                for vectors, (_, (start, end)) in zip(meanings, pointed, strict=True)
            ]
        return JsonAnswer(
            {
                "model": model.name,
                "cosine": float(cosine(*compared)),
                "cosine_by_layer": np.asarray(cosine(first, second)).tolist(),
                "words_a": pointed[0][0][slice(*pointed[0][1])],
                "words_b": pointed[1][0][slice(*pointed[1][1])],
            }
        )


def _encoding(model: ServedModel) -> Work:
    return Work(("encode", model.name), lambda sentences: list(model.elmo.encode(sentences)))


def _embedding(model: ServedModel, layers: Any) -> Work:
    return Work(("embed", model.name, layers), lambda sentences: model.elmo.embed(sentences, layers=layers))


def _mix(choice: LayerChoice, layers: Array) -> Array:
    """(L+1, 2D) -> the vector that the choice makes of it."""
    weights = np.asarray(choice.weights, dtype=np.float32)
    mixed: Array = choice.lay_out((weights @ layers)[None])[0]
    return mixed


def _to_base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").data).decode("ascii")
