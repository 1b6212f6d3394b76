"""What all routes share: the settings, what is served, the batcher and the counters of one application."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest

from elmo.serve.asking import compute, read_body
from elmo.serve.batching import Batcher, Words, Work
from elmo.serve.metrics import Metrics
from elmo.serve.schemas import Request
from elmo.serve.served import Served
from elmo.serve.settings import Settings

RequestT = TypeVar("RequestT", bound=Request)


@dataclass
class Context:
    """One application; `batcher` is there while it runs."""

    settings: Settings
    served: Served
    metrics: Metrics
    batcher: Batcher | None = None

    @property
    def is_alive(self) -> bool:
        """Whether anything can still be computed."""
        return self.batcher is not None and self.batcher.is_alive

    @property
    def is_ready(self) -> bool:
        """Whether a request would be taken now."""
        return self.is_alive and self.batcher is not None and not self.batcher.is_full

    async def read(self, request: HttpRequest, shape: type[RequestT]) -> RequestT:
        """Read and check the body of a request."""
        return await read_body(request, shape, self.settings)

    async def compute(self, request: HttpRequest, work: Work, sentences: Sequence[Words]) -> list[Any]:
        """Give one result a sentence, computed with the sentences of other requests."""
        assert self.batcher is not None
        return await compute(request, self.batcher, self.settings, work, sentences)

    async def call(self, request: HttpRequest, function: Callable[[], Any], words: Words) -> Any:
        """Give what a function returns; it is computed alone, and waits as if it read these words."""
        (result,) = await self.compute(request, Work(object(), lambda _: [function()]), [words])
        return result

    async def open(self, when_idle: Callable[[], None]) -> None:
        """Start to compute."""
        self.batcher = Batcher(
            self.metrics,
            batch_words=self.settings.batch_words,
            wait_seconds=self.settings.batch_wait_ms / 1000,
            queue_words=self.settings.queue_words + 2 * self.settings.max_sentences,
            queue_requests=self.settings.queue_requests,
            when_idle=when_idle,
        )
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Finish what was asked for."""
        if self.batcher is not None:
            await self.batcher.close()
