"""Sentences of many requests -> one call of the model, whose results are returned to each request.

One thread computes. In the meantime requests queue up; an idle thread waits a few milliseconds for more of them.
The queue is bounded in words and in requests. A long request is split, so that short ones wait less.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from elmo.heap import return_free_memory
from elmo.serve.errors import Problem
from elmo.serve.middleware import Metrics
from elmo.serve.settings import Settings

Words = Sequence[str]
LARGEST_SHARE = 0.5  # of a batch, for one request while others wait
IDLE_SECONDS = 10.0  # after which free memory is returned to the system
CLOSING_SECONDS = 5.0


@dataclass(frozen=True)
class Work:
    """A computation on sentences; those of all requests with the same key are computed together."""

    key: Hashable
    compute: Callable[[list[Words]], Sequence[Any]]  # one result per sentence


@dataclass(eq=False)
class _Job:
    work: Work
    sentences: Sequence[Words]
    future: "asyncio.Future[list[Any]]"
    arrived: float
    results: list[Any] = field(default_factory=list)
    num_taken: int = 0  # sentences that have been put into batches


class _Chunk(NamedTuple):
    job: _Job
    sentences: Sequence[Words]


class Batcher:
    """The queue of requests and the thread that computes them; used from the event loop's thread."""

    def __init__(self, metrics: Metrics, settings: Settings) -> None:
        self._metrics, self._batch_words, self._wait_seconds = (
            metrics,
            settings.batch_words,
            settings.batch_wait_ms / 1000,
        )
        # The boundaries of sentences count too.
        self._queue_words = settings.queue_words + 2 * settings.max_sentences
        self._queue_requests = settings.queue_requests
        self._waiting: dict[_Job, int] = {}  # in order of arrival, with the words left of each
        self._num_words = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="elmo-compute", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether work is still accepted."""
        return self._thread.is_alive() and not self._is_closing

    @property
    def is_full(self) -> bool:
        """Whether a request of one word would be rejected."""
        return self._num_words + _weigh(["word"]) > self._queue_words or len(self._waiting) >= self._queue_requests

    def submit(self, work: Work, sentences: Sequence[Words]) -> "asyncio.Future[list[Any]]":
        """Return a future of one result per sentence, in their order; cancel it to skip what is not computed yet."""
        num_words = sum(map(_weigh, sentences))
        with self._changed:
            if self._is_closing:
                raise _refuse("stopping", "The server is stopping; try another server, or again later.", 5)
            if self._num_words + num_words > self._queue_words or len(self._waiting) >= self._queue_requests:
                self._metrics.refused.labels("queue_full").inc()
                message = f"{self._num_words} words of {len(self._waiting)} requests are in the queue; try again later."
                raise _refuse("overloaded", message, 1)
            job = _Job(work, sentences, self._loop.create_future(), time.monotonic())
            self._waiting[job] = num_words
            self._count(num_words)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._forget(job))
        return job.future

    async def close(self) -> None:
        """Accept no more work and wait some seconds for the thread, which is a daemon, to end."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSING_SECONDS)

    def _forget(self, job: _Job) -> None:
        """Remove a job that was answered or whose client has left."""
        with self._changed:
            self._count(-self._waiting.pop(job, 0))

    def _count(self, num_words: int) -> None:
        self._num_words += num_words
        self._metrics.waiting_words.set(self._num_words)
        self._metrics.waiting_requests.set(len(self._waiting))

    def _run(self) -> None:
        while chunks := self._take():
            start = time.monotonic()
            sentences = [sentence for chunk in chunks for sentence in chunk.sentences]
            done = list(self._compute(chunks))
            self._metrics.observe_batch(len(sentences), sum(map(_weigh, sentences)), time.monotonic() - start)
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody needs these results
                self._loop.call_soon_threadsafe(_deliver, done)

    def _take(self) -> list[_Chunk]:
        """Wait for work and return a batch of it; an empty one when the server stops and the queue is empty."""

        def has_news() -> bool:
            return bool(self._waiting) or self._is_closing

        with self._changed:
            while True:
                if not self._changed.wait_for(has_news, IDLE_SECONDS):
                    return_free_memory()
                    self._changed.wait_for(has_news)
                if not self._waiting:
                    return []
                ready = next(iter(self._waiting)).arrived + self._wait_seconds
                while self._num_words < self._batch_words and (remaining := ready - time.monotonic()) > 0:
                    self._changed.wait(remaining)
                if chunks := list(self._cut()):
                    return chunks

    def _cut(self) -> Iterator[_Chunk]:
        """Yield chunks of the jobs in their order until the batch is full; the rest of a job goes to the end."""
        room = self._batch_words
        share = self._batch_words * (LARGEST_SHARE if len(self._waiting) > 1 else 1.0)
        for job in list(self._waiting):
            if room <= 0:
                return
            if job.future.done():  # cancelled, but the event loop has not called _forget yet
                self._count(-self._waiting.pop(job))
                continue
            num_words, start = 0, job.num_taken
            for sentence in job.sentences[start:]:
                # A sentence is never split: the first one of a batch may exceed its size.
                if num_words + _weigh(sentence) > min(room, share) and (num_words or room < self._batch_words):
                    break
                num_words += _weigh(sentence)
                job.num_taken += 1
            if job.num_taken == start:
                return
            room -= num_words
            left = self._waiting.pop(job) - num_words
            if job.num_taken < len(job.sentences):
                self._waiting[job] = left
            self._count(-num_words)
            yield _Chunk(job, job.sentences[start : job.num_taken])

    def _compute(self, chunks: list[_Chunk]) -> Iterator[tuple[_Chunk, Sequence[Any] | Exception]]:
        groups: dict[Hashable, list[_Chunk]] = {}
        for chunk in chunks:
            groups.setdefault(chunk.job.work.key, []).append(chunk)
        for group in groups.values():
            try:
                compute = group[0].job.work.compute
                results = iter(compute([sentence for chunk in group for sentence in chunk.sentences]))
                yield from [(chunk, [next(results) for _ in chunk.sentences]) for chunk in group]
            except Exception as error:
                if len(group) == 1:
                    yield group[0], error
                else:  # a request must not fail because of the sentences of another one
                    for chunk in group:
                        yield from self._compute([chunk])


def _weigh(sentence: Words) -> int:
    # The two boundaries are computed too, so an empty sentence is some work as well.
    return len(sentence) + 2


def _deliver(done: list[tuple[_Chunk, Sequence[Any] | Exception]]) -> None:
    for (job, _), results in done:
        if job.future.done():
            continue
        if isinstance(results, Exception):
            job.future.set_exception(results)
            continue
        job.results.extend(results)
        if len(job.results) == len(job.sentences):
            job.future.set_result(job.results)


def _refuse(code: str, message: str, seconds: int) -> Problem:
    return Problem(503, code, message, headers={"Retry-After": str(seconds)})
