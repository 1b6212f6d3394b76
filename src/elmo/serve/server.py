"""Run the server until SIGTERM or Ctrl-C; requests in progress are answered before it stops.

uvicorn runs the application with the h11 parser, which bounds the head of a request; middleware.py bounds bodies
and responses.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo.errors import ConfigError
from elmo.heap import reuse_large_blocks
from elmo.serve.app import create_app
from elmo.serve.settings import Settings

BACKLOG = 1024
MAX_HEAD_BYTES = 2**16
HEAD_SECONDS, RESPONSE_SECONDS = 10.0, 60.0
# How long a Python thread may hold the interpreter lock. A short time lets the model's threads continue immediately
# while another thread writes responses.
SWITCH_SECONDS = 0.0005


class Connection(H11Protocol):
    """A uvicorn connection with timeouts for sending a request and for reading the response."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of a new connection."""
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._close_idle, None)

    def on_response_complete(self) -> None:
        """Start the timer of the next request, which may have begun already."""
        last_request = self.cycle
        super().on_response_complete()
        self.loop.call_later(HEAD_SECONDS, self._close_idle, last_request)

    def pause_writing(self) -> None:
        """Start the timer of a response that is not read as fast as it is sent."""
        super().pause_writing()
        self.loop.call_later(RESPONSE_SECONDS, self._abort_unread, self.cycle)

    def _close_idle(self, last_request: Any) -> None:
        if self.cycle is last_request:
            self.transport.close()

    def _abort_unread(self, request: Any) -> None:
        if self.cycle is request and self.flow.write_paused:
            self.transport.abort()


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until stopped by a signal; `announce` receives the address once the models are open."""
    app, listener = create_app(settings), bind(settings)
    reuse_large_blocks()
    sys.setswitchinterval(SWITCH_SECONDS)
    announce(address_of(listener))
    config = uvicorn.Config(
        app, http=Connection, h11_max_incomplete_event_size=MAX_HEAD_BYTES, ws="none", lifespan="on", backlog=BACKLOG,
        log_level="warning", access_log=False, server_header=False,
        limit_concurrency=settings.max_connections, timeout_graceful_shutdown=int(settings.max_seconds) + 5,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])


def bind(settings: Settings) -> socket.socket:
    """Return a socket that listens on the host and port; ConfigError if that is not possible."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    is_dual = settings.host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            (settings.host, settings.port), family=family, backlog=BACKLOG, dualstack_ipv6=is_dual
        )
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        raise ConfigError(
            f"The server cannot listen on {settings.host}:{settings.port} ({reason}); choose another --host or --port."
        ) from error


def address_of(listener: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
