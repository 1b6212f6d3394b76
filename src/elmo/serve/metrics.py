"""What the server counts, for Prometheus. Processes that share PROMETHEUS_MULTIPROC_DIR answer for all of them."""

import os
from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The numbers of one application."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=self.registry, multiprocess_mode="livesum")

        self.requests = Counter(
            "elmo_requests", "Requests by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "elmo_request_seconds", "Time to an answer", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.refused = Counter("elmo_refused", "Requests refused, by reason", ["reason"], registry=self.registry)
        self.words = Counter("elmo_words", "Words read, boundaries of sentences counted", registry=self.registry)
        self.sentences = Counter("elmo_sentences", "Sentences read", registry=self.registry)
        self.batch_sentences = Histogram(
            "elmo_batch_sentences", "Sentences computed together", buckets=SIZES, registry=self.registry
        )
        self.batch_seconds = Histogram(
            "elmo_batch_seconds", "Time a batch takes", buckets=SECONDS, registry=self.registry
        )
        self.waiting_words = gauge("elmo_waiting_words", "Words that wait for their turn")
        self.waiting_requests = gauge("elmo_waiting_requests", "Requests that wait for their turn")
        self.in_progress = gauge("elmo_requests_in_progress", "Requests that are being answered")

    def watch_cache(self, model: str, hit_rate: Callable[[], float]) -> None:
        """Show how often the words of a model were remembered; processes cannot share what is only asked for."""
        if SHARED_FOLDER in os.environ:
            return
        if not hasattr(self, "_hit_rate"):
            self._hit_rate = Gauge(
                "elmo_word_cache_hit_rate", "Words seen before", ["model"], registry=self.registry
            )
        self._hit_rate.labels(model).set_function(hit_rate)

    def observe_batch(self, num_sentences: int, num_words: int, seconds: float) -> None:
        """Count a batch."""
        self.words.inc(num_words)
        self.sentences.inc(num_sentences)
        self.batch_sentences.observe(num_sentences)
        self.batch_seconds.observe(seconds)

    def render(self) -> bytes:
        """Give the page for Prometheus."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
