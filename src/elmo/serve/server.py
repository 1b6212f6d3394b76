"""Settings -> a running server, until SIGTERM or Ctrl-C; requests that were sent before that are answered.

uvicorn runs the application with the h11 parser, which bounds the head of a request; middleware.py bounds bodies
and responses. uvicorn never closes a connection on which no complete request arrives; Server does.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import uvicorn

from elmo.errors import ConfigError
from elmo.heap import reuse_large_blocks
from elmo.serve.app import create_app
from elmo.serve.settings import Settings

BACKLOG = 1024
MAX_HEAD_BYTES = 2**16
# How long connections are still accepted and read at the end: what was sent before may not have been read yet.
LAST_REQUEST_SECONDS = 1.0
TICKS_PER_SECOND = 10  # of uvicorn
# How long a Python thread keeps the interpreter. The model's threads need it at once, or the cores wait for them
# while responses are written.
SWITCH_SECONDS = 0.0005


class Server(uvicorn.Server):
    """uvicorn's server, which closes connections that send no request and ends without resetting any."""

    def __init__(self, config: uvicorn.Config, settings: Settings) -> None:
        super().__init__(config)
        self._settings = settings
        self._idle: dict[Any, tuple[Any, float]] = {}  # connection -> its last request, and since when it is idle

    async def on_tick(self, counter: int) -> bool:
        """Do what uvicorn does ten times per second, and close idle connections once per second."""
        if counter % TICKS_PER_SECOND == 0:
            self._close_idle(time.monotonic())
        return await super().on_tick(counter)

    def _close_idle(self, now: float) -> None:
        """Close connections that were idle for too long, and the idlest ones of too many."""
        idle = {}
        for connection in self.server_state.connections:
            request = connection.cycle  # type: ignore[union-attr]
            if request is None or request.response_complete or connection.transport.is_closing():
                last_request, since = self._idle.get(connection, (None, now))
                idle[connection] = request, since if request is last_request else now
        self._idle = idle
        num_excess = len(self.server_state.connections) - self._settings.max_connections
        for number, (connection, (_, since)) in enumerate(sorted(idle.items(), key=lambda item: item[1][1])):
            if number < num_excess or now - since > self._settings.max_seconds:
                connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept and read for a moment what was sent before the end; then stop as uvicorn does."""
        if not self.force_exit:
            await asyncio.sleep(LAST_REQUEST_SECONDS)
        await super().shutdown(sockets)


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until stopped by a signal; `announce` receives the address once the models are open."""
    app, listener = create_app(settings), bind(settings)
    listener.listen(BACKLOG)
    reuse_large_blocks()
    sys.setswitchinterval(SWITCH_SECONDS)
    announce(address_of(listener))
    config = uvicorn.Config(
        app, http="h11", h11_max_incomplete_event_size=MAX_HEAD_BYTES, ws="none", lifespan="on", backlog=BACKLOG,
        log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=int(settings.max_seconds) + 5,
    )  # fmt: skip
    Server(config, settings).run(sockets=[listener])


def bind(settings: Settings) -> socket.socket:
    """Return a socket bound to the host and port; ConfigError if that is not possible."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"The server cannot listen on {settings.host}:{settings.port} ({error.strerror or error}); choose "
            "another --host or --port."
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
