"""Settings -> the application: middleware, routes, error handlers, and the files of the page.

Any ASGI server can run it; server.py uses uvicorn.
"""

import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from elmo import __version__
from elmo.serve import routes
from elmo.serve.batching import Batcher
from elmo.serve.errors import JsonResponse, Problem, add_error_handlers
from elmo.serve.middleware import Gate, Metrics
from elmo.serve.requests import Service, ServiceOf
from elmo.serve.served import Served, open_served
from elmo.serve.settings import Settings, read_settings

_ABOUT = "Contextual word vectors from bidirectional language models."
_LIMITS = ("max_body_bytes", "max_words", "max_values", "max_seconds")
# GET of these paths and of the files of the page needs no key; everything else does.
PUBLIC_PATHS = ("/", "/docs", "/health", "/openapi.json")

router = APIRouter()


def create_app(settings: Settings | None = None, served: Served | None = None) -> FastAPI:
    """Build the application, by default from the environment; `served` is what was opened already."""
    settings = read_settings() if settings is None else settings
    service = Service(settings, open_served(settings) if served is None else served, Metrics())
    app = FastAPI(
        title="elmo", version=__version__, description=_ABOUT, lifespan=_lifespan, docs_url=None, redoc_url=None,
        strict_content_type=False, responses={"default": {"description": "An error: {error: {code, message, field}}"}},
    )  # fmt: skip
    app.state.service = service
    routers = [routes.router, router, *([routes.tasks_router] if service.served.tasks else [])]
    # The scheme is for the OpenAPI document; Gate checks the key.
    scheme = [] if settings.api_key is None else [Security(HTTPBearer(auto_error=False))]
    for api_router in routers:
        app.include_router(api_router, dependencies=scheme)
    app.add_api_route("/health", check_health)
    public = (*PUBLIC_PATHS, *_add_page(app))
    add_error_handlers(app)
    app.add_middleware(Gate, settings=settings, metrics=service.metrics, public=public)
    if settings.cors_origins:  # the middleware that is added last is the first to receive a request
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )  # fmt: skip
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.batcher = Batcher(service.metrics, service.settings)
    yield
    await service.batcher.close()


@router.get("/models")
async def list_served(service: ServiceOf) -> JsonResponse:
    """Return the models and tasks that are served, and the limits of a request."""
    models = [model.describe() for model in service.served.models.values()]
    limits = {name: getattr(service.settings, name) for name in _LIMITS}
    return JsonResponse({"models": models, "tasks": service.served.describe_tasks(), "limits": limits})


@router.get("/v1/models")
async def list_models(service: ServiceOf) -> JsonResponse:
    """Return the models in OpenAI's shape."""
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "elmo"} for name in service.served.models]
    return JsonResponse({"object": "list", "data": data})


@router.get("/metrics", response_class=Response)
async def report_metrics(service: ServiceOf) -> Response:
    """Return the metrics for Prometheus."""
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def check_health(service: ServiceOf) -> JsonResponse:
    """Return 200 as long as anything can be computed."""
    batcher = service.batcher
    if batcher is None or not batcher.is_alive:
        raise Problem(503, "not_alive", "The computing thread has ended; restart the server.")
    return JsonResponse({"status": "ok"})


def _add_page(app: FastAPI) -> list[str]:
    """Add the page, and return the paths of its files."""
    folder = Path(str(files("elmo.serve") / "page"))
    static = StaticFiles(directory=folder)
    mimetypes.add_type("text/javascript", ".js")  # not on every Windows

    async def send_page(request: Request) -> Response:
        name = "docs.html" if request.scope["route"].path == "/docs" else "index.html"
        return await static.get_response(name, request.scope)

    for path in ("/", "/docs"):
        app.add_api_route(path, send_page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/page", static)
    return [f"/page/{file.name}" for file in folder.iterdir()]
