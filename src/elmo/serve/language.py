"""POST /substitutes, /score, /neighbors and /tasks/{name}: what language models, indexes and tasks find."""

import asyncio
import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter

from elmo.analysis import Neighbors, find_neighbors
from elmo.serve import schemas
from elmo.serve.batching import Work
from elmo.serve.errors import JsonResponse, describe_errors
from elmo.serve.requests import CallOf, JsonRoute

router = APIRouter(route_class=JsonRoute, tags=["language model"], responses=describe_errors())
neighbors_router = APIRouter(route_class=JsonRoute, tags=["analysis"], responses=describe_errors())
tasks_router = APIRouter(route_class=JsonRoute, tags=["tasks"], responses=describe_errors())


@router.post("/substitutes", response_model=schemas.SubstitutesResponse)
async def find_substitutes(body: schemas.SubstitutesRequest, call: CallOf) -> JsonResponse:
    """Return words that would fit in place of one."""
    model = call.served.model(body.model)
    ((words, span),) = await call.point(model.elmo, ("sentence", body.sentence, body.index))
    find = partial(
        model.elmo.substitutes, words, span,
        top_k=body.top_k, punctuation=body.punctuation, same_word=body.same_word,
        add_period=isinstance(body.sentence, str),
    )  # fmt: skip
    found = await call.run(find, words)
    return JsonResponse(
        schemas.SubstitutesResponse(model=model.name, words=words, index=span[0], substitutes=found)
    )


@router.post("/score", response_model=schemas.ScoreResponse)
async def score_sentences(body: schemas.ScoreRequest, call: CallOf) -> JsonResponse:
    """Return how well the language model predicts each word."""
    model = call.served.model(body.model)
    read = await call.tokenize(body.sentences, "sentences", model.elmo, on_spaces=body.split_on_spaces)
    work = Work(("score", model.name), model.elmo.score)
    scores = await call.compute(work, [sentence.words for sentence in read])
    sentences = [schemas.ScoredSentence(**vars(each), perplexity=each.perplexity) for each in scores]
    return JsonResponse(schemas.ScoreResponse(model=model.name, sentences=sentences))


@neighbors_router.post("/neighbors", response_model=schemas.NeighborsResponse)
async def search_index(body: schemas.NeighborsRequest, call: CallOf) -> JsonResponse:
    """Return sentences of the index where words are used like this one."""
    model, index = call.served.model_with_index(body.model)
    on_spaces = index.manifest.reading.split_on_spaces
    pointed = ("sentence", body.sentence, body.index)
    ((words, span),) = await call.point(model.elmo, pointed, on_spaces=on_spaces)
    find = partial(
        find_neighbors, model.elmo, words, index,
        index=span, layers=body.layers, words=body.words, top_k=body.top_k,
    )  # fmt: skip
    found = await call.run(find, words)
    return JsonResponse(schemas.NeighborsResponse(model=model.name, **_with_characters(found)))


@tasks_router.post("/tasks/{name}", response_model=schemas.TaskResponse)
async def predict(name: str, body: schemas.TaskRequest, call: CallOf) -> JsonResponse:
    """Return the predictions of a trained task."""
    task = call.served.task(name)
    call.check_count(len(body.items), "items")
    # No item has fewer words than strings, so too many are refused before any is tokenized.
    call.check_words([_count_at_least(item) for item in body.items], "items", each=False)
    examples = await asyncio.to_thread(task.read_items, body.items)
    texts = [text for example in examples for text in task.texts(example)]
    call.check_words([len(words) for words in texts], "items")
    words = [word for text in texts for word in text]
    found = await call.run(lambda: list(task.predict_examples(examples)), words)
    predictions = [_describe_prediction(item, each) for item, each in zip(body.items, found, strict=True)]
    return JsonResponse(schemas.TaskResponse(task=name, family=task.family, predictions=predictions))


def _with_characters(found: Neighbors) -> dict[str, Any]:
    """Return the JSON object of a search with the characters of each neighbour in its text."""
    described = found.to_dict()
    for layer, entries in zip(found.layers, described["layers"], strict=True):
        for neighbor, entry in zip(layer.neighbors, entries["neighbors"], strict=True):
            offsets = neighbor.occurrence.sentence.offsets
            entry["characters"] = (offsets[entry["start"]][0], offsets[entry["end"] - 1][1])
    return described


def _count_at_least(item: Any) -> int:
    """Return a number of words that an item certainly has; a string in a list is one, even an empty one."""
    if isinstance(item, str):
        return max(1, len(item.split()))
    return sum(map(_count_at_least, item)) if isinstance(item, list) else 0


def _describe_prediction(item: Any, prediction: Any) -> Any:
    found = dataclasses.asdict(prediction)
    if "tags" in found:
        found["spans"] = [{"type": kind, "start": start, "end": end} for kind, start, end in prediction.spans]
        found["offsets"] = _locate(prediction.words, item) if isinstance(item, str) else None
    return found


def _locate(words: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Return the offsets of the words of a text, between which there is nothing but spaces."""
    offsets, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        offsets.append((start, end))
    return offsets
