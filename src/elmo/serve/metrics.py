"""Prometheus metrics of the server, and the middleware that counts requests.

Processes that share PROMETHEUS_MULTIPROC_DIR report their metrics together.
"""

import os
import time
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The metrics of one application."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=registry, multiprocess_mode="livesum")

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        self.requests = counter("elmo_requests", "Requests by route and status", "route", "status")
        self.seconds = histogram("elmo_request_seconds", "Time to the response", "route")
        self.refused = counter("elmo_refused", "Refused requests by reason", "reason")
        self.words = counter("elmo_words", "Words computed, including sentence boundaries")
        self.sentences = counter("elmo_sentences", "Sentences computed")
        self.batch_sentences = histogram("elmo_batch_sentences", "Sentences per batch", buckets=SIZES)
        self.batch_seconds = histogram("elmo_batch_seconds", "Time per batch")
        self.waiting_words = gauge("elmo_waiting_words", "Words in the queue")
        self.waiting_requests = gauge("elmo_waiting_requests", "Requests in the queue")
        self.in_progress = gauge("elmo_requests_in_progress", "Requests that have no response yet")

    def watch_cache(self, model: str, hit_rate: Callable[[], float]) -> None:
        """Report the hit rate of a model's word cache; not with several processes, which cannot share it."""
        if SHARED_FOLDER in os.environ:
            return
        if not hasattr(self, "_hit_rate"):
            text = "Share of words found in the cache"
            self._hit_rate = Gauge("elmo_word_cache_hit_rate", text, ["model"], registry=self.registry)
        self._hit_rate.labels(model).set_function(hit_rate)

    def observe_batch(self, num_sentences: int, num_words: int, seconds: float) -> None:
        """Count a batch."""
        self.words.inc(num_words)
        self.sentences.inc(num_sentences)
        self.batch_sentences.observe(num_sentences)
        self.batch_seconds.observe(seconds)

    def render(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


class CountRequests:
    """An ASGI middleware that counts requests and their time by route and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._metrics.in_progress.dec()
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)
