"""Settings -> the application: middleware, routes, error handlers, and the files of the page.

Any ASGI server can run it; server.py uses uvicorn.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.security import HTTPBearer
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from elmo import __version__
from elmo.serve import routes
from elmo.serve.batching import Batcher
from elmo.serve.errors import JsonResponse, Problem, add_error_handlers
from elmo.serve.middleware import Gate, Metrics
from elmo.serve.requests import CallOf, Service
from elmo.serve.served import Served, open_served
from elmo.serve.settings import Settings, read_settings

_ABOUT = "Contextual word vectors from bidirectional language models."
_LIMITS = ("max_body_bytes", "max_sentences", "max_words", "max_sentence_words", "max_values", "max_seconds")
# GET of these paths and of the page needs no key; everything else does.
PUBLIC_PATHS = ("/health", "/healthz", "/readyz", "/openapi.json")
_MEDIA_TYPES = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json",
    "svg": "image/svg+xml", "wasm": "application/wasm",
}  # fmt: skip
_PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

router, health_router = APIRouter(), APIRouter()


def create_app(settings: Settings | None = None, served: Served | None = None) -> FastAPI:
    """Build the application, by default from the environment; `served` is what was opened already."""
    settings = read_settings() if settings is None else settings
    service = Service(settings, open_served(settings) if served is None else served, Metrics())
    app = FastAPI(
        title="elmo", version=__version__, description=_ABOUT, lifespan=_lifespan, docs_url=None, redoc_url=None,
        strict_content_type=False, responses={"default": {"description": "An error: {error: {code, message, field}}"}},
    )  # fmt: skip
    app.state.service = service
    routers = [routes.router, router]
    routers += [routes.neighbors_router] if service.served.has_index else []
    routers += [routes.tasks_router] if service.served.tasks else []
    # The scheme is for the OpenAPI document; Gate checks the key.
    has_key = settings.read_api_key() is not None
    for each in routers:
        app.include_router(each, dependencies=[Security(HTTPBearer(auto_error=False))] if has_key else [])
    app.include_router(health_router)
    public = (*PUBLIC_PATHS, *_add_page(app))
    add_error_handlers(app)
    app.add_middleware(Gate, settings=settings, metrics=service.metrics, public=public)
    if settings.cors_origins:  # the middleware that is added last is the first to receive a request
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )  # fmt: skip
    for model in service.served.models.values():
        service.metrics.watch_cache(model.name, lambda elmo=model.elmo: elmo.cache_info().hit_rate)  # type: ignore[misc]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.batcher = Batcher(service.metrics, service.settings)
    yield
    await service.batcher.close()


@router.get("/models")
async def list_served(call: CallOf) -> JsonResponse:
    """Return the models and tasks that are served, and the limits of a request."""
    models = [model.describe() for model in call.served.models.values()]
    limits = {name: getattr(call.settings, name) for name in _LIMITS}
    return JsonResponse({"models": models, "tasks": call.served.describe_tasks(), "limits": limits})


@router.get("/tasks")
async def list_tasks(call: CallOf) -> JsonResponse:
    """Return the trained tasks that are served."""
    return JsonResponse({"tasks": call.served.describe_tasks()})


@router.get("/v1/models")
async def list_models(call: CallOf) -> JsonResponse:
    """Return the models in OpenAI's shape."""
    return JsonResponse({"object": "list", "data": [_describe_model(name) for name in call.served.models]})


@router.get("/v1/models/{name:path}")
async def describe_model(name: str, call: CallOf) -> JsonResponse:
    """Return one model in OpenAI's shape."""
    return JsonResponse(_describe_model(call.served.model(name).name))


def _describe_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "elmo"}


@router.get("/metrics", response_class=Response)
async def report_metrics(call: CallOf) -> Response:
    """Return the metrics for Prometheus."""
    return Response(call.service.metrics.render(), media_type=call.service.metrics.content_type)


@health_router.get("/health")
@health_router.get("/healthz")
async def check_health(call: CallOf) -> JsonResponse:
    """Return 200 as long as anything can be computed."""
    batcher = call.service.batcher
    if batcher is None or not batcher.is_alive:
        raise Problem(503, "not_alive", "The computing thread has ended; restart the server.")
    return JsonResponse({"status": "ok"})


@health_router.get("/readyz")
async def check_readiness(call: CallOf) -> JsonResponse:
    """Return 200 while requests are accepted."""
    batcher = call.service.batcher
    if batcher is None or not batcher.is_alive or batcher.is_full:
        message = "No request is accepted now: the server is stopping, or its queue is full."
        raise Problem(503, "not_ready", message, headers={"Retry-After": "1"})
    return JsonResponse({"status": "ready"})


def _add_page(app: FastAPI) -> list[str]:
    """Add the page and return its paths; the files are read now: no request opens one."""
    folder = files("elmo.serve") / "page"
    contents = {f"/page/{file.name}": file.read_bytes() for file in folder.iterdir() if file.is_file()}
    contents |= {"/": contents["/page/index.html"], "/docs": contents["/page/docs.html"]}

    async def send_file(request: Request) -> Response:
        path = request.scope["route"].path
        tag = f'"{hashlib.sha256(contents[path]).hexdigest()[:16]}"'
        headers = {**_PAGE_HEADERS, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        media_type = _MEDIA_TYPES[path.rpartition(".")[2] if "." in path else "html"]
        return Response(contents[path], media_type=media_type, headers=headers)

    for path in contents:
        app.add_api_route(path, send_file, methods=["GET", "HEAD"], include_in_schema=False)
    return list(contents)
