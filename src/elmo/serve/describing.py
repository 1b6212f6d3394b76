"""Routes -> the OpenAPI document: what each takes and gives. Bodies are read by asking.py, not by FastAPI."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from elmo.serve.answers import ErrorAnswer
from elmo.serve.schemas import Request

_REFUSALS = {
    400: "Not valid JSON, or not what the model takes",
    401: "The key is missing or wrong",
    404: "No such model, task or index",
    408: "The request came too slowly",
    413: "Too much at once",
    422: "A field is missing, unknown or wrong",
    503: "Too many wait, or the server stops; Retry-After says how long",
    504: "The answer was not ready in time",
}


def taking(shape: type[Request], answer: type[BaseModel] | None, *, example: dict[str, Any]) -> dict[str, Any]:
    """Give the arguments that describe a POST route."""
    content = {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}, "example": example}
    body = {"required": True, "content": {"application/json": content}}
    return {**giving(answer, *_REFUSALS), "openapi_extra": {"requestBody": body}}


def giving(answer: type[BaseModel] | None, *refusals: int) -> dict[str, Any]:
    """Give the arguments that describe what a route answers."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": _REFUSALS[status]} for status in refusals
    }
    responses[200] = {"description": "The answer"} if answer is None else {"model": answer}
    return {"responses": responses, "response_model": None}


def describe(app: FastAPI) -> dict[str, Any]:
    """Give the document, with the bodies that FastAPI does not know of."""
    if app.openapi_schema is None:
        document: dict[str, Any] = FastAPI.openapi(app)
        shapes = Request.__subclasses__()
        _, definitions = models_json_schema(
            [(shape, "validation") for shape in shapes], ref_template="#/components/schemas/{model}"
        )
        document["components"]["schemas"].update(definitions["$defs"])
        app.openapi_schema = document
    return app.openapi_schema
