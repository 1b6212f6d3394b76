"""uvicorn's connection with three more limits: how many there are, how slowly one may ask, how slowly it may take.

uvicorn itself waits for ever for the headers of a request, and for a client that does not read its answer.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from elmo.serve.problems import Problem
from elmo.serve.settings import Settings


class Connection(HttpToolsProtocol):
    """One connection; make_connection gives the class its limits."""

    max_connections = Settings.max_connections
    max_seconds = Settings.max_seconds
    _headers_due: asyncio.TimerHandle | None = None

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

    def on_message_begin(self) -> None:
        """A request begins: its headers must come in time."""
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """The headers are here; the body has a limit of its own (asking.py)."""
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


def _too_slow(seconds: float) -> Problem:
    return Problem(408, "too_slow", f"No whole request came within {seconds:g} seconds.")
