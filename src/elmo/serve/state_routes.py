"""GET /models, /v1/models, /healthz, /readyz and /metrics: what is served and how it is."""

from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from elmo.serve.answers import ModelsAnswer
from elmo.serve.context import Context
from elmo.serve.describing import giving
from elmo.serve.json_answer import JsonAnswer
from elmo.serve.problems import Problem
from elmo.tasks.task import Task

_LIMITS = ("max_body_bytes", "max_sentences", "max_words", "max_sentence_words", "max_values", "max_seconds")


def add_state_routes(app: FastAPI, context: Context) -> None:
    """Add the routes to an application."""

    @app.get("/models", tags=["server"], summary="What is served", **giving(ModelsAnswer, 401))
    async def models() -> JsonAnswer:
        return JsonAnswer(
            {
                "models": [model.describe() for model in context.served.models.values()],
                "tasks": [_describe_task(name, task) for name, task in context.served.tasks.items()],
                "limits": {name: getattr(context.settings, name) for name in _LIMITS},
            }
        )

    @app.get("/v1/models", tags=["server"], summary="The models, in OpenAI's shape", **giving(None, 401))
    async def openai_models() -> JsonAnswer:
        return JsonAnswer({"object": "list", "data": [_openai_model(name) for name in context.served.models]})

    @app.get(
        "/v1/models/{name:path}", tags=["server"], summary="One model, in OpenAI's shape", **giving(None, 401, 404)
    )
    async def openai_model(name: str) -> JsonAnswer:
        return JsonAnswer(_openai_model(context.served.model(name).name))

    @app.get("/healthz", tags=["server"], summary="Whether the server lives", **giving(None, 503))
    async def healthz() -> JsonAnswer:
        if not context.is_alive:
            raise Problem(503, "not_alive", "Nothing is computed any more; start the server again.")
        return JsonAnswer({"status": "ok"})

    @app.get("/readyz", tags=["server"], summary="Whether requests are taken now", **giving(None, 503))
    async def readyz() -> JsonAnswer:
        if not context.is_ready:
            raise Problem(
                503, "not_ready", "No request is taken now: the server is stopping, or too many wait.",
                headers={"Retry-After": "1"},
            )  # fmt: skip
        return JsonAnswer({"status": "ready"})

    @app.get("/metrics", tags=["server"], summary="Counters for Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(context.metrics.render(), media_type=context.metrics.content_type)


def _openai_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "elmo"}


def _describe_task(name: str, task: Task) -> dict[str, Any]:
    labels = task.description.labels
    return {"name": name, "family": task.family, "labels": labels.get("tags") or labels.get("labels") or []}
