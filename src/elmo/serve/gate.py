"""What every request passes on its way in and out: the key is compared, the answer counted."""

import hmac
import ipaddress
import time
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.metrics import Metrics
from elmo.serve.problems import Problem


class Gate:
    """An ASGI middleware. `open_paths` need no key."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        key: str | None,
        open_paths: Collection[str],
        hosts: Collection[str],
        metrics: Metrics,
    ) -> None:
        """`hosts`: names under which a server without a key is asked; see is_known_host."""
        self._app, self._open_paths, self._metrics = app, open_paths, metrics
        self._hosts = frozenset(host.lower() for host in hosts)
        self._key = None if key is None else key.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.in_progress.inc()
        try:
            host = Headers(scope=scope).get("host")
            if self._key is None and not is_known_host(host, self._hosts):
                self._metrics.refused.labels("host").inc()
                await _unknown_host(host).to_answer()(scope, receive, counting)
            elif self._may_pass(scope):
                await self._app(scope, receive, counting)
            else:
                self._metrics.refused.labels("key").inc()
                await _unauthorized().to_answer()(scope, receive, counting)
        finally:
            self._metrics.in_progress.dec()
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)

    def _may_pass(self, scope: Scope) -> bool:
        if self._key is None or scope["path"] in self._open_paths:
            return True
        headers = Headers(scope=scope)
        kind, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(given.encode("utf-8"), self._key)


def is_known_host(host: str | None, known: Collection[str]) -> bool:
    """Return whether a Host header names this server: an address, localhost, or a known name.

    A page of another site whose name was made to point here (DNS rebinding) sends the name of that site.
    """
    if host is None or "*" in known:
        return True
    name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        name = name.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost") or name in known
    return True


def _unknown_host(host: str | None) -> Problem:
    return Problem(
        403,
        "unknown_host",
        f"This server is not known as {host!r:.80}; ask it by its address, or start it with --allowed-host NAME "
        "or with a key.",
    )


def _unauthorized() -> Problem:
    return Problem(
        401,
        "unauthorized",
        "The key is missing or wrong; send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
        headers={"WWW-Authenticate": "Bearer"},
    )
