"""How much a request may send and how long it may take, as an ASGI middleware for any server.

A body is read here, within its size and time; the application receives it whole. What one request may ask for
(sentences, words, numbers) is checked in requests.py.
"""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.errors import CLIENT_GONE, Problem
from elmo.serve.settings import Settings

# Responses are sent in pieces, so that the server waits for a slow client instead of keeping a whole copy.
PIECE_BYTES = 2**18


class _TooSlowError(Exception):
    """A response was not read in time."""


class LimitRequests:
    """Bounds the requests in progress, the size of a body, and the time to send one and to read the response."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings, self._num_requests = app, settings, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._num_requests += 1
        try:
            await self._process(scope, receive, send)
        except Problem as problem:
            await problem.to_response()(scope, receive, send)
        except _TooSlowError:
            pass  # the server closes the connection of an incomplete response
        finally:
            self._num_requests -= 1

    async def _process(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._num_requests > self._settings.max_connections:
            message = f"{self._settings.max_connections} requests are in progress already; try again later."
            raise Problem(503, "too_many_requests", message, headers={"Retry-After": "1"})
        if scope["method"] != "POST":
            await self._app(scope, receive, self._limit_time(send))
            return
        body: bytes | None = await self._read_body(scope, receive)
        # `curl -d` calls its body a form: whatever Content-Type says, the body is parsed as JSON.
        scope["headers"] = [header for header in scope["headers"] if header[0] != b"content-type"]

        async def receive_body() -> Message:
            nonlocal body
            if body is None:
                return await receive()  # only a disconnect can follow
            message, body = {"type": "http.request", "body": body, "more_body": False}, None
            return message

        await self._app(scope, receive_body, self._limit_time(send))

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        limit, seconds = self._settings.max_body_bytes, self._settings.max_seconds
        too_large = Problem(413, "too_large", f"The body is longer than {limit} bytes; send less at once.")
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > limit:
            raise too_large
        body = bytearray()
        try:
            with anyio.fail_after(seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(CLIENT_GONE, "client_gone", "The client closed the connection.")
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            reason = f"The body did not arrive within {seconds:g} seconds."
            raise Problem(408, "too_slow", reason, headers={"Connection": "close"}) from error

    def _limit_time(self, send: Send) -> Send:
        async def send_in_time(message: Message) -> None:
            try:
                with anyio.fail_after(self._settings.max_seconds):
                    await _send_in_pieces(message, send)
            except TimeoutError as error:
                raise _TooSlowError from error

        return send_in_time


async def _send_in_pieces(message: Message, send: Send) -> None:
    body = message.get("body", b"")
    if len(body) <= PIECE_BYTES:
        await send(message)
        return
    for start in range(0, len(body), PIECE_BYTES):
        is_last = start + PIECE_BYTES >= len(body)
        more = message.get("more_body", False) or not is_last
        await send({**message, "body": body[start : start + PIECE_BYTES], "more_body": more})
