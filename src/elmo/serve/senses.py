"""POST /senses: one word in several sentences -> its senses, and points on a plane by each layer."""

from functools import partial

from fastapi import APIRouter

from elmo.analysis import map_senses
from elmo.analysis.occurrences import QUERY_SOURCE, Occurrence, join_words
from elmo.serve import schemas
from elmo.serve.errors import JsonResponse, describe_errors
from elmo.serve.requests import CallOf, JsonRoute

router = APIRouter(route_class=JsonRoute, tags=["analysis"], responses=describe_errors())


@router.post("/senses", response_model=schemas.SensesResponse)
async def find_senses(body: schemas.SensesRequest, call: CallOf) -> JsonResponse:
    """Return the senses of a word that is marked in several sentences."""
    model = call.served.model(body.model)
    call.check_count(len(body.sentences), "sentences")
    read = await call.point(*[("sentences", sentence, None) for sentence in body.sentences])
    occurrences = [
        Occurrence(join_words(words, QUERY_SOURCE, number), *span) for number, (words, span) in enumerate(read)
    ]
    find = partial(map_senses, model.elmo, occurrences, layers=body.layers, num_senses=body.num_senses)
    found = await call.run(find, [word for words, _ in read for word in words])
    return JsonResponse(schemas.SensesResponse(model=model.name, **found.to_dict()))
