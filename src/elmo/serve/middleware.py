"""Middleware in front of all routes, so that none is unprotected: metrics, access control, and limits."""

import hmac
import ipaddress
import socket
import time
from collections.abc import Collection
from urllib.parse import urlsplit

import anyio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pydantic_core import from_json
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.errors import ApiError
from elmo.serve.settings import Settings

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Metrics:
    """The metrics of one application, for Prometheus."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("elmo_requests", "Requests", ["route", "status"], registry=registry)
        self.seconds = Histogram("elmo_request_seconds", "Time to the response", ["route"], registry=registry)
        self.words = Counter("elmo_words", "Words computed, including sentence boundaries", registry=registry)
        self.waiting_words = Gauge("elmo_waiting_words", "Words in the queue", registry=registry)
        self.in_progress = Gauge("elmo_requests_in_progress", "Requests without a response", registry=registry)


class Gate:
    """Counts requests, checks access, and reads bodies within the limits, in front of all routes.

    Requests without the key or, if there is no key, from other sites may only GET or HEAD `public` paths. service.py
    limits the numbers of words and values.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings, metrics: Metrics, public: Collection[str]) -> None:
        self._app, self._settings, self._metrics, self._public = app, settings, metrics, frozenset(public)
        self._hosts = frozenset(map(str.lower, (*settings.allowed_hosts, settings.host, socket.gethostname())))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            with self._metrics.in_progress.track_inprogress():
                await self._process(scope, receive, send_and_record)
        except ApiError as error:
            await error.to_response()(scope, receive, send_and_record)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)

    async def _process(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check_access(Request(scope))
        if scope["method"] == "POST":
            body = await self._read_body(Request(scope, receive))
            # The body is parsed as JSON regardless of its Content-Type: `curl -d` declares a form.
            scope["headers"] = [header for header in scope["headers"] if header[0] != b"content-type"]

            async def receive_body() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            await self._app(scope, receive_body, send)
        else:
            await self._app(scope, receive, send)

    async def _read_body(self, request: Request) -> bytes:
        """Return the body. Raises ApiError if it is too long, too slow, or not strict JSON (NaN, lone surrogates)."""
        limit, seconds, body = self._settings.max_body_bytes, self._settings.max_seconds, bytearray()
        try:
            with anyio.fail_after(seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > limit:
                        raise ApiError(413, "too_large", f"The body is longer than {limit} bytes; send less at once.")
            from_json(body or b"null", allow_inf_nan=False)
        except (TimeoutError, ClientDisconnect) as error:
            message = f"The body did not arrive within {seconds:g} seconds."
            raise ApiError(408, "request_timeout", message, headers={"Connection": "close"}) from error
        except ValueError as error:
            message = f"The body is not valid JSON ({error}); send a JSON object."
            raise ApiError(400, "invalid_json", message) from error
        return bytes(body)

    def _check_access(self, request: Request) -> None:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if path in self._public and request.method in ("GET", "HEAD"):
            return
        host, origin = request.headers.get("host"), request.headers.get("origin")
        if self._settings.api_key is not None:
            if not _has_key(request, self._settings.api_key):
                message = "The key is missing or wrong; send it as 'Authorization: Bearer KEY'."
                raise ApiError(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
        elif not is_known_host(host, self._hosts):
            message = f"{host!r:.80} is not a name of this server; use its address, or start it with "
            raise ApiError(403, "unknown_host", f"{message}--allowed-host NAME or with a key.")
        elif request.method not in ("GET", "HEAD", "OPTIONS") and self._is_cross_site(request):
            message = f"A page of {origin!r:.80} sent this request; start the server with --cors-origin to allow that."
            raise ApiError(403, "cross_site", message)

    def _is_cross_site(self, request: Request) -> bool:
        """Return whether a page of another site sent a request; programs other than browsers send no Origin."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin in self._settings.cors_origins or "*" in self._settings.cors_origins:
            return False
        if site is not None:  # browsers send it to https and to this machine
            return site not in ("same-origin", "none")
        address = urlsplit(origin or "")
        is_same_site = address.netloc == request.headers.get("host") or address.hostname in self._hosts
        return origin is not None and not is_same_site


def _has_key(request: Request, key: str) -> bool:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), key.encode())


def is_known_host(host: str | None, known: frozenset[str]) -> bool:
    """Return whether a Host header names this server: an address, localhost, or a known name.

    This prevents DNS rebinding: a page of a site whose name resolves to this server sends the name of that site.
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
