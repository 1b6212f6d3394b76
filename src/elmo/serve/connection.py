"""uvicorn's connection with more limits: how many there are, how slowly one may ask or take, how long a head is.

uvicorn itself waits for ever for the headers of a request, keeps any number of them in memory, and waits for a
client that does not read its answer.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from elmo.serve.problems import Problem
from elmo.serve.settings import Settings

MAX_HEAD_BYTES = 2**16


class Connection(HttpToolsProtocol):
    """One connection; make_connection gives the class its limits."""

    max_connections = Settings.max_connections
    max_seconds = Settings.max_seconds
    _headers_due: asyncio.TimerHandle | None = None
    _num_idle_bytes = 0  # received since a request or a piece of its body began
    _num_header_bytes = 0
    _is_progress = False
    _problem: Problem | None = None

    def connection_made(self, transport: Any) -> None:
        """Take the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(_too_many(self.max_connections))
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came; headers, or anything else that is not a body, may not go on for ever."""
        self._is_progress = False
        super().data_received(data)
        self._num_idle_bytes = 0 if self._is_progress else self._num_idle_bytes + len(data)
        if self._num_idle_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_too_long_head())

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the shape of every error."""
        self._refuse(self._problem or Problem(400, "invalid_http", "This is not a valid HTTP/1.1 request."))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, if all of them together are not too long."""
        super().on_header(name, value)
        self._num_header_bytes += len(name) + len(value)
        if len(self.url) + self._num_header_bytes > MAX_HEAD_BYTES:
            self._problem = _too_long_head()
            raise ValueError(self._problem.message)  # which the parser hands on as its own error

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, whose length is limited by asking.py."""
        self._is_progress = True
        super().on_body(body)

    def on_message_begin(self) -> None:
        """A request begins: its headers must come in time."""
        self._is_progress, self._num_header_bytes = True, 0
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """The headers are here; the body has a limit of its own (asking.py)."""
        self._is_progress = True
        self._stop_expecting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The answer is written: what the client has not taken in time is dropped."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.max_seconds, self._drop_untaken, self.cycle)

    def _expect_headers(self) -> None:
        self._stop_expecting()
        self._headers_due = self.loop.call_later(self.max_seconds, self._refuse, _too_slow(self.max_seconds))

    def _stop_expecting(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _drop_untaken(self, cycle: RequestResponseCycle) -> None:
        if self.cycle is cycle and self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        self._stop_expecting()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # an answer is on its way, and cannot be taken back
            return
        answer = problem.to_answer()
        head = [f"HTTP/1.1 {problem.status} {problem.code}".encode(), b"connection: close"]
        head += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(answer.body)]))
        self.transport.close()


def make_connection(settings: Settings) -> type[Connection]:
    """Give the class with the limits of these settings."""
    limits = {"max_connections": settings.max_connections, "max_seconds": settings.max_seconds}
    return type("LimitedConnection", (Connection,), limits)


def _too_many(number: int) -> Problem:
    return Problem(
        503, "too_many_connections", f"{number} connections are open already; try again later.",
        headers={"Retry-After": "1"},
    )  # fmt: skip


def _too_long_head() -> Problem:
    return Problem(
        431, "head_too_large", f"The headers of the request are longer than {MAX_HEAD_BYTES} bytes; send fewer."
    )


def _too_slow(seconds: float) -> Problem:
    return Problem(408, "too_slow", f"No whole request came within {seconds:g} seconds.")
