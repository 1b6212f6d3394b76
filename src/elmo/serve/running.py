"""Settings -> a running server, until SIGTERM or Ctrl-C; requests that are being answered are finished first."""

import os
import socket
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import uvicorn

from elmo.errors import ConfigError
from elmo.heap import reuse_large_blocks
from elmo.serve.app import create_app
from elmo.serve.connection import make_connection
from elmo.serve.metrics import SHARED_FOLDER
from elmo.serve.settings import Settings, read_settings

BACKLOG = 1024
# Threads of Python take turns. The model's need theirs at once, or the cores wait for the sending of answers.
TURN_SECONDS = 0.0005


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until told to stop; `announce` is told the address when it is ready (several processes: before)."""
    if settings.workers > 1:
        _run_workers(settings, announce)
        return
    app = create_app(settings)
    listener = bind(settings)
    listener.listen(BACKLOG)
    _prepare_process()
    server = uvicorn.Server(uvicorn.Config(app, **_options(settings)))
    announce(address_of(listener))
    server.run(sockets=[listener])


def create_worker_app() -> Any:
    """Make the application of one of several processes, from its environment."""
    _prepare_process()
    return create_app(read_settings(os.environ))


def bind(settings: Settings) -> socket.socket:
    """Open the socket, or say why it cannot be."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{settings.host}:{settings.port} cannot be listened on ({error.strerror or error}); choose another "
            "--host or --port."
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Give the address that a browser takes."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _run_workers(settings: Settings, announce: Callable[[str], None]) -> None:
    create_app(settings)  # what cannot be opened is told once, not by every process
    with bind(settings) as listener:
        address, port = address_of(listener), listener.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="elmo-metrics-") as shared:
        os.environ.update(settings.to_environment())
        os.environ[SHARED_FOLDER] = shared
        announce(address)
        options = {**_options(settings), "http": "elmo.serve.running:WorkerConnection", "port": port}
        uvicorn.run("elmo.serve.running:create_worker_app", factory=True, workers=settings.workers, **options)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "host": settings.host,
        "http": make_connection(settings),
        "ws": "none",
        "lifespan": "on",
        "backlog": BACKLOG,
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": int(settings.max_seconds) + 5,
    }


def _prepare_process() -> None:
    reuse_large_blocks()
    sys.setswitchinterval(TURN_SECONDS)


def __getattr__(name: str) -> Any:
    if name == "WorkerConnection":
        return make_connection(read_settings(os.environ))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
