"""Build the application from its settings: middleware, routes, error handlers, and the files of the page.

Any ASGI server can run it; server.py uses uvicorn.
"""

import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Security
from fastapi.security import HTTPBearer
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from elmo import __version__
from elmo.serve import routes
from elmo.serve.batching import Batcher
from elmo.serve.errors import HANDLERS
from elmo.serve.middleware import Gate, Metrics
from elmo.serve.served import Served, open_served
from elmo.serve.service import Service
from elmo.serve.settings import Settings, read_settings

# GET requests for these paths and for the files of the page need no key; all other requests do.
PUBLIC_PATHS = ("/", "/docs", "/health", "/openapi.json")


def create_app(settings: Settings | None = None, served: Served | None = None) -> FastAPI:
    """Build the application; by default, settings are read from the environment and their models are opened."""
    settings = read_settings() if settings is None else settings
    served = open_served(settings) if served is None else served
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = service = Service(settings, served, metrics, Batcher(metrics, settings))
        yield
        await service.batcher.close()

    app = FastAPI(
        title="elmo", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, strict_content_type=False,
        exception_handlers=HANDLERS,
        description="Contextual word vectors from bidirectional language models.",
        responses={"default": {"description": "An error: {error: {code, message, field}}"}},
    )  # fmt: skip
    # The scheme is for the OpenAPI document; Gate checks the key.
    scheme = [] if settings.api_key is None else [Security(HTTPBearer(auto_error=False))]
    for router in [routes.router, *([routes.tasks_router] if served.tasks else [])]:
        app.include_router(router, dependencies=scheme)
    app.include_router(routes.health_router)
    public = (*PUBLIC_PATHS, *_add_page(app))
    app.add_middleware(Gate, settings=settings, metrics=metrics, public=public)
    if settings.cors_origins:  # the middleware that is added last receives requests first
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )  # fmt: skip
    return app


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
