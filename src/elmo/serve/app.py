"""Settings -> the application: routes, limits, page. Any ASGI server can run it; running.py uses uvicorn."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from elmo.errors import ElmoError
from elmo.serve.context import Context
from elmo.serve.describing import describe
from elmo.serve.gate import Gate
from elmo.serve.language_routes import add_language_routes
from elmo.serve.memory import give_back_memory
from elmo.serve.metrics import Metrics
from elmo.serve.page_files import add_page
from elmo.serve.problems import Problem
from elmo.serve.served import Served, open_served
from elmo.serve.settings import Settings, read_settings
from elmo.serve.state_routes import add_state_routes
from elmo.serve.vector_routes import add_vector_routes
from elmo.version import __version__

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
_ABOUT = "Contextual word vectors from bidirectional language models. Errors are {error: {code, message, field}}."


def create_app(settings: Settings | None = None, served: Served | None = None) -> FastAPI:
    """Make the application; without settings, those of the environment. `served` is what was opened already."""
    settings = read_settings(os.environ) if settings is None else settings
    metrics = Metrics()
    context = Context(settings, open_served(settings) if served is None else served, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await context.open(give_back_memory)
        yield
        await context.close()

    app = FastAPI(
        title="elmo", version=__version__, description=_ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    add_vector_routes(app, context)
    add_language_routes(app, context)
    add_state_routes(app, context)
    paths = add_page(app)
    for model in context.served.models.values():
        metrics.watch_cache(model.name, lambda elmo=model.elmo: elmo.cache_info().hit_rate)  # type: ignore[misc]
    _answer_errors(app)
    app.add_middleware(
        Gate,
        key=settings.read_api_key(),
        open_paths=OPEN_PATHS | paths,
        hosts=(*settings.allowed_hosts, settings.host, socket.gethostname()),
        metrics=metrics,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )
    return app


def _answer_errors(app: FastAPI) -> None:
    """Give every error its one shape."""

    async def tell_problem(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.to_answer()

    async def tell_mistake(request: HttpRequest, error: Exception) -> Response:
        return Problem(400, "invalid_input", str(error)).to_answer()

    async def tell_http(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _describe_http(request, error).to_answer()

    async def tell_failure(request: HttpRequest, error: Exception) -> Response:
        # The server around the application logs the error itself.
        return Problem(500, "failed", "The server failed at this request; its log says why.").to_answer()

    handlers: dict[Any, Any] = {
        Problem: tell_problem, ElmoError: tell_mistake, HTTPException: tell_http, Exception: tell_failure
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _describe_http(request: HttpRequest, error: HTTPException) -> Problem:
    path = request.url.path
    if error.status_code == 404:
        advice = {"/neighbors": "start the server with --index", "/tasks": "start the server with --task"}
        hint = advice.get(f"/{path.split('/')[1]}", "see /docs for what is")
        return Problem(404, "not_found", f"{path[:200]} is not served here; {hint}.")
    if error.status_code == 405:
        return Problem(
            405, "method_not_allowed", f"{path[:200]} does not take {request.method}; see /docs.",
            headers=error.headers,
        )  # fmt: skip
    return Problem(error.status_code, "http_error", str(error.detail), headers=error.headers)
