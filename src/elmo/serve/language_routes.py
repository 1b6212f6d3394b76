"""POST /substitutes, /score, /neighbors and /tasks/{name}: what the language model, an index and tasks say."""

import asyncio
import dataclasses
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request as HttpRequest

from elmo.analysis.neighbors import Neighbors, find_neighbors
from elmo.errors import InputError
from elmo.inference.scoring import SentenceScore
from elmo.serve.answers import ScoreAnswer, SubstitutesAnswer
from elmo.serve.batching import Work
from elmo.serve.context import Context
from elmo.serve.describing import taking
from elmo.serve.json_answer import JsonAnswer
from elmo.serve.schemas import NeighborsRequest, ScoreRequest, SubstitutesRequest, TaskRequest
from elmo.serve.sentences import check_number, check_words, read_sentences
from elmo.tasks.families.tagging import TagPrediction
from elmo.tasks.task import Task
from elmo.text.marks import read_pointed
from elmo.text.tokenize import tokenize


def add_language_routes(app: FastAPI, context: Context) -> None:
    """Add the routes to an application; /neighbors and /tasks only if there is one."""

    @app.post(
        "/substitutes",
        tags=["language model"],
        summary="Words that would fit in place of one",
        **taking(SubstitutesRequest, SubstitutesAnswer, example={"sentence": "I went to the [bank]", "top_k": 5}),
    )
    async def substitutes(request: HttpRequest) -> JsonAnswer:
        asked = await context.read(request, SubstitutesRequest)
        model = context.served.model(asked.model)
        await read_sentences([asked.sentence], context.settings, field="sentence")
        words, (start, end) = read_pointed(asked.sentence, asked.index, tokenize, name="index")
        if end - start > 1:
            raise InputError(f"The brackets hold {end - start} words; mark one, for one word is put in its place.")
        find = partial(
            model.elmo.substitutes, words, start,
            top_k=asked.top_k, punctuation=asked.punctuation, same_word=asked.same_word,
        )  # fmt: skip
        found = await context.call(request, find, words)
        substitutes = [dataclasses.asdict(each) for each in found]
        return JsonAnswer({"model": model.name, "words": words, "index": start, "substitutes": substitutes})

    @app.post(
        "/score",
        tags=["language model"],
        summary="How well the language model foresees each word",
        **taking(ScoreRequest, ScoreAnswer, example={"sentences": ["I went to the bank"]}),
    )
    async def score(request: HttpRequest) -> JsonAnswer:
        asked = await context.read(request, ScoreRequest)
        model = context.served.model(asked.model)
        read = await read_sentences(
            asked.sentences, context.settings, field="sentences", on_spaces=asked.split_on_spaces
        )
        work = Work(("score", model.name), model.elmo.score)
        scores = await context.compute(request, work, [each.words for each in read])
        return JsonAnswer({"model": model.name, "sentences": [_describe_score(each) for each in scores]})

    if context.served.has_index:
        _add_neighbors(app, context)
    if context.served.tasks:
        _add_tasks(app, context)


def _add_neighbors(app: FastAPI, context: Context) -> None:
    @app.post(
        "/neighbors",
        tags=["analysis"],
        summary="Where words are used as one is, with their sentences",
        **taking(NeighborsRequest, None, example={"sentence": "a spectacular [play] on the ball", "top_k": 3}),
    )
    async def neighbors(request: HttpRequest) -> JsonAnswer:
        asked = await context.read(request, NeighborsRequest)
        model = context.served.model_with_index(asked.model)
        assert model.index is not None
        (read,) = await read_sentences([asked.sentence], context.settings, field="sentence")
        find = partial(
            find_neighbors, model.elmo, asked.sentence, model.index, index=asked.index, layers=asked.layers,
            words=asked.words, top_k=asked.top_k,
        )  # fmt: skip
        found = await context.call(request, find, read.words)
        return JsonAnswer({"model": model.name, **_describe_neighbors(found)})


def _add_tasks(app: FastAPI, context: Context) -> None:
    @app.post(
        "/tasks/{name}",
        tags=["tasks"],
        summary="What a trained task predicts",
        **taking(TaskRequest, None, example={"items": ["I went to New York"]}),
    )
    async def task(request: HttpRequest, name: str) -> JsonAnswer:
        trained = context.served.task(name)
        asked = await context.read(request, TaskRequest)
        check_number(len(asked.items), context.settings, "items")
        # No item has fewer words than strings, so too many are refused before any is cut.
        check_words([_count_at_least(item) for item in asked.items], context.settings, "items", of_one=False)
        examples = await asyncio.to_thread(trained.read_items, asked.items)
        texts = [text for example in examples for text in trained.texts(example)]
        check_words([len(words) for words in texts], context.settings, "items")
        words = [word for text in texts for word in text]
        found = await context.call(request, lambda: list(trained.predict_examples(examples)), words)
        predictions = [
            _describe_prediction(trained, item, each) for item, each in zip(asked.items, found, strict=True)
        ]
        return JsonAnswer({"task": name, "family": trained.family, "predictions": predictions})


def _describe_neighbors(found: Neighbors) -> dict[str, Any]:
    """Give its own object, and the characters of each word in its text."""
    described = found.to_dict()
    for layer, entries in zip(found.layers, described["layers"], strict=True):
        for neighbor, entry in zip(layer.neighbors, entries["neighbors"], strict=True):
            occurrence = neighbor.occurrence
            offsets = occurrence.sentence.offsets
            entry["characters"] = (offsets[occurrence.start][0], offsets[occurrence.end - 1][1])
    return described


def _count_at_least(item: Any) -> int:
    """Return how many words the texts of an item have at least; a string in a list is one, even if it is empty."""
    if isinstance(item, str):
        return max(1, len(item.split()))
    return sum(map(_count_at_least, item)) if isinstance(item, list) else 0


def _describe_score(score: SentenceScore) -> dict[str, Any]:
    return {**dataclasses.asdict(score), "perplexity": score.perplexity}


def _describe_prediction(task: Task, item: Any, prediction: Any) -> dict[str, Any]:
    found = dataclasses.asdict(prediction)
    if isinstance(prediction, TagPrediction):
        found["spans"] = [{"type": kind, "start": start, "end": end} for kind, start, end in prediction.spans]
        found["offsets"] = (
            [(word.start, word.end) for word in task.tokenize(item)] if isinstance(item, str) else None
        )
    return found
