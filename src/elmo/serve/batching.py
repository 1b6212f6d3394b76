"""Batch the sentences of many requests into one call of the model, and return the results to each request.

One thread computes while new requests wait in a queue; an idle thread waits a few milliseconds for further requests.
The queue is bounded in words. A long request is split into chunks, which alternate with chunks of other requests.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from elmo.heap import return_free_memory
from elmo.serve.errors import ApiError
from elmo.serve.middleware import Metrics
from elmo.serve.settings import Settings

Sentence = Sequence[str]
BatchFunction = Callable[[list[Sentence]], Sequence[Any]]  # returns one result per sentence
CHUNKS_PER_BATCH = 2  # a long request is split into chunks of at most half a batch
WAIT_SECONDS = 0.003  # an idle thread waits this long for further requests
IDLE_SECONDS = 10.0  # after this time without requests, free memory is returned to the system
CLOSING_SECONDS = 5.0  # time to answer the requests in the queue when the server is stopping


class _Chunk(NamedTuple):
    key: Hashable  # chunks with the same key are computed together
    function: BatchFunction
    sentences: list[Sentence]
    num_tokens: int
    future: "asyncio.Future[Sequence[Any]]"


class Batcher:
    """The queue of requests and the thread that computes them; call its methods only from the event loop's thread."""

    def __init__(self, metrics: Metrics, settings: Settings) -> None:
        self._metrics, self._settings = metrics, settings
        self._waiting: deque[deque[_Chunk]] = deque()  # the remaining chunks of each request
        self._num_tokens = 0  # in all waiting chunks
        self._is_closing = False
        self._queue_changed = threading.Condition()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="elmo-compute", daemon=True)
        self._thread.start()
        metrics.waiting_words.set_function(lambda: self._num_tokens)

    async def compute(self, key: Hashable, function: BatchFunction, sentences: Sequence[Sentence]) -> list[Any]:
        """Return one result per sentence, in order; cancellation drops the chunks that are still in the queue.

        Sentences with the same key are computed in one call, even if they belong to several requests.
        """
        chunks = deque(
            _Chunk(key, function, chunk, count_tokens(chunk), self._loop.create_future())
            for chunk in self._cut(sentences)
        )
        futures, num_tokens = [chunk.future for chunk in chunks], count_tokens(sentences)
        with self._queue_changed:
            if self._num_tokens + num_tokens > self._settings.queue_words:
                message = f"The queue is full ({self._num_tokens} words, {len(self._waiting)} requests); retry later."
                raise ApiError(503, "overloaded", message, headers={"Retry-After": "1"})
            self._waiting.append(chunks)
            self._num_tokens += num_tokens
            self._queue_changed.notify()
        try:
            return [result for results in await asyncio.gather(*futures) for result in results]
        finally:
            for future in futures:
                future.cancel()

    def _cut(self, sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
        """Yield chunks of sentences; a single long sentence may exceed the limit."""
        chunk: list[Sentence] = []
        room = size = self._settings.batch_words // CHUNKS_PER_BATCH
        for sentence in sentences:
            num_tokens = count_tokens([sentence])
            if chunk and num_tokens > room:
                yield chunk
                chunk, room = [], size
            chunk.append(sentence)
            room -= num_tokens
        yield chunk

    @property
    def is_alive(self) -> bool:
        """Whether the thread that computes still runs."""
        return self._thread.is_alive()

    async def close(self) -> None:
        """Wait up to CLOSING_SECONDS for the thread to finish; as a daemon thread, it does not block exit."""
        with self._queue_changed:
            self._is_closing = True
            self._queue_changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSING_SECONDS)

    def _run(self) -> None:
        while self._wait():
            if chunks := self._take():
                done = list(_compute(chunks))
                self._metrics.words.inc(sum(chunk.num_tokens for chunk in chunks))
                with contextlib.suppress(RuntimeError):  # the event loop has ended, so the results are not needed
                    self._loop.call_soon_threadsafe(_deliver, done)

    def _wait(self) -> bool:
        """Wait for work; return False when the server is stopping and the queue is empty."""
        with self._queue_changed:
            if not self._waiting:
                while not self._queue_changed.wait_for(lambda: self._waiting or self._is_closing, IDLE_SECONDS):
                    return_free_memory()
                self._queue_changed.wait_for(lambda: self._num_tokens >= self._settings.batch_words, WAIT_SECONDS)
            return bool(self._waiting)

    def _take(self) -> list[_Chunk]:
        """Return a batch of chunks, one from each request in turn; it is empty if all were cancelled."""
        batch: list[_Chunk] = []
        room = self._settings.batch_words
        with self._queue_changed:
            while self._waiting and (not batch or self._waiting[0][0].num_tokens <= room):
                chunks = self._waiting.popleft()
                chunk = chunks.popleft()
                self._num_tokens -= chunk.num_tokens
                if chunks:
                    self._waiting.append(chunks)
                if not chunk.future.cancelled():
                    batch.append(chunk)
                    room -= chunk.num_tokens
        return batch


def count_tokens(sentences: Sequence[Sentence]) -> int:
    """Return the number of words plus the two boundaries of each sentence, which are computed too."""
    return sum(len(sentence) + 2 for sentence in sentences)


def _compute(chunks: list[_Chunk]) -> Iterator[tuple[_Chunk, Sequence[Any] | Exception]]:
    groups: dict[Hashable, list[_Chunk]] = {}
    for chunk in chunks:
        groups.setdefault(chunk.key, []).append(chunk)
    for group in groups.values():
        try:
            results = iter(group[0].function([sentence for chunk in group for sentence in chunk.sentences]))
            yield from [(chunk, [next(results) for _ in chunk.sentences]) for chunk in group]
        except Exception as error:
            if len(group) == 1:
                yield group[0], error
            else:  # a request must not fail because of another request's sentences
                for chunk in group:
                    yield from _compute([chunk])


def _deliver(done: list[tuple[_Chunk, Sequence[Any] | Exception]]) -> None:
    for chunk, results in done:
        if chunk.future.done():
            continue
        if isinstance(results, Exception):
            chunk.future.set_exception(results)
        else:
            chunk.future.set_result(results)
