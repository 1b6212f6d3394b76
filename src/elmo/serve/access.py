"""Who may send requests: one middleware in front of all routes, so that a new route cannot be left open."""

import functools
import hmac
import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo.serve.errors import Problem
from elmo.serve.metrics import Metrics

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class CheckAccess:
    """An ASGI middleware that refuses requests without the key or, if there is no key, from other sites.

    Only GET and HEAD of the paths in `public` pass unchecked.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        key: bytes | None,
        hosts: frozenset[str],
        origins: Collection[str],
        public: Collection[str],
    ) -> None:
        self._app, self._metrics, self._key = app, metrics, key
        self._hosts, self._origins, self._public = hosts, frozenset(origins), frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request."""
        if scope["type"] == "http" and (refusal := self._check(scope)) is not None:
            reason, problem = refusal
            self._metrics.refused.labels(reason).inc()
            await problem.to_response()(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> tuple[str, Problem] | None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in self._public and scope["method"] in ("GET", "HEAD"):
            return None
        request = Request(scope)
        if self._key is not None:
            return None if self._has_key(request) else ("key", _unauthorized())
        host = request.headers.get("host")
        if not is_known_host(host, self._hosts):
            return "host", Problem(
                403,
                "unknown_host",
                f"This server is not known as {host!r:.80}; use its address, or start it with --allowed-host NAME "
                "or with a key.",
            )
        if request.method not in _SAFE_METHODS and self._is_cross_site(request):
            origin = request.headers.get("origin")
            return "site", Problem(
                403,
                "cross_site",
                f"A page of {origin!r:.80} sent this request; start the server with --cors-origin to allow that.",
            )
        return None

    def _has_key(self, request: Request) -> bool:
        assert self._key is not None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        sent = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        return hmac.compare_digest(sent.encode("utf-8"), self._key)

    def _is_cross_site(self, request: Request) -> bool:
        """Return whether a page of another site sent a request; programs other than browsers send no Origin."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin in self._origins or "*" in self._origins:
            return False
        if site is not None:  # browsers send it to https and to this machine
            return site not in ("same-origin", "none")
        if origin is None:
            return False
        address = urlsplit(origin)
        return address.netloc != request.headers.get("host") and address.hostname not in self._hosts


@functools.lru_cache(maxsize=256)
def is_known_host(host: str | None, known: frozenset[str]) -> bool:
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


def _unauthorized() -> Problem:
    message = "The key is missing or wrong; send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
    return Problem(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
