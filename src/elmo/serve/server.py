"""Settings -> a running server, until SIGTERM or Ctrl-C; requests that were sent before that are answered.

uvicorn runs the application. Its connection and its server are subclassed for what it does not limit or finish
itself; each of these has a test in tests/serve/test_process.py that fails without it:
- heads: it waits forever for one and keeps any number of bytes of it in memory (MAX_HEAD_BYTES, max_seconds);
- bytes that are not HTTP: it answers plain text, and all other errors are JSON;
- connections: limit_concurrency looks at requests only, so idle connections are unlimited (max_connections);
- responses: it keeps one in memory as long as the client does not read it (max_seconds);
- the end: it resets connections that it has not accepted or read yet.
"""

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from elmo.errors import ConfigError
from elmo.heap import reuse_large_blocks
from elmo.serve.app import create_app
from elmo.serve.errors import Problem
from elmo.serve.metrics import SHARED_FOLDER
from elmo.serve.settings import Settings

BACKLOG = 1024
MAX_HEAD_BYTES = 2**16
# How long a connection without a request stays open at the end: what was sent before may not have been read yet.
LAST_REQUEST_SECONDS = 1.0
# How long a Python thread keeps the interpreter. The model's threads need it at once, or the cores wait for them
# while responses are written.
SWITCH_SECONDS = 0.0005


class Connection(HttpToolsProtocol):
    """uvicorn's connection with limits."""

    _head_due: asyncio.TimerHandle | None = None
    _num_head_bytes = 0  # received since the parser last began or continued a request

    def connection_made(self, transport: Any) -> None:
        """Accept the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        settings: Settings = self.app_state["settings"]  # which the application's lifespan put there
        self._max_seconds = settings.max_seconds
        if len(self.connections) > settings.max_connections:
            message = f"{settings.max_connections} connections are open already; try again later."
            self._refuse(Problem(503, "too_many_connections", message, headers={"Retry-After": "1"}))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for a request."""
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes; a head or anything else that is not a body may not be endless."""
        self._num_head_bytes += len(data)
        super().data_received(data)
        if self._num_head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            message = f"The headers of the request are longer than {MAX_HEAD_BYTES} bytes; send fewer."
            self._refuse(Problem(431, "head_too_large", message))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(Problem(400, "invalid_http", "This is not a valid HTTP/1.1 request."))

    def on_message_begin(self) -> None:
        """Expect the rest of a head that has begun."""
        self._num_head_bytes = 0
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Stop expecting the head; the body has limits of its own (requests.py)."""
        self._num_head_bytes = 0
        self._stop_expecting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._num_head_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Drop the response later if the client does not read it."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self._max_seconds, self._drop_unread, self.cycle)

    def shutdown(self) -> None:
        """Close after the response, or after a moment in which a request that was sent already can be read."""
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LAST_REQUEST_SECONDS, super().shutdown)
        else:
            super().shutdown()

    def _expect_head(self) -> None:
        self._stop_expecting()
        problem = Problem(408, "too_slow", f"No complete request arrived within {self._max_seconds:g} seconds.")
        self._head_due = self.loop.call_later(self._max_seconds, self._refuse, problem)

    def _stop_expecting(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _drop_unread(self, cycle: RequestResponseCycle) -> None:
        if self.cycle is cycle and self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        self._stop_expecting()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # another response is being written
            return
        response = problem.to_response()
        head = [f"HTTP/1.1 {problem.status_code} {problem.code}".encode(), b"connection: close"]
        head += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server, which accepts the connections in the backlog before it closes the socket."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop as uvicorn does, after taking over the connections that would be reset."""
        waiting = []
        for listener in sockets or ():
            listener.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    waiting.append(listener.accept()[0])
        # The socket is closed before these begin to run, so no further connection can come in between.
        adopting = [asyncio.ensure_future(self._adopt(connection)) for connection in waiting]
        await super().shutdown(sockets)
        await asyncio.gather(*adopting, return_exceptions=True)

    async def _adopt(self, connection: socket.socket) -> None:
        def create_protocol() -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state)

        _, protocol = await asyncio.get_running_loop().connect_accepted_socket(create_protocol, connection)
        protocol.shutdown()


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until stopped by a signal; `announce` receives the address once the models are open."""
    app = create_app(settings)  # also with several workers: what cannot be opened is reported once, here
    options = _options(settings)
    listener = bind(settings)
    address, port = address_of(listener), listener.getsockname()[1]
    if settings.workers == 1:
        listener.listen(BACKLOG)
        _prepare_process()
        announce(address)
        Server(uvicorn.Config(app, **options)).run(sockets=[listener])
        return
    listener.close()
    with tempfile.TemporaryDirectory(prefix="elmo-metrics-") as shared:
        os.environ.update(settings.to_environment())
        os.environ[SHARED_FOLDER] = shared
        announce(address)
        factory = "elmo.serve.server:create_worker_app"
        uvicorn.run(factory, factory=True, workers=settings.workers, host=settings.host, port=port, **options)


def create_worker_app() -> FastAPI:
    """Build the application of one of several processes, from its environment."""
    _prepare_process()
    return create_app()


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


def _options(settings: Settings) -> dict[str, Any]:
    return {
        # A name, so that a worker answers its supervisor while it imports this module and torch.
        "http": "elmo.serve.server:Connection",
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
    sys.setswitchinterval(SWITCH_SECONDS)
