"""A request: its texts as words, within the limits, and its results from the batcher."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request

from elmo.model import Elmo
from elmo.serve.batching import Batcher, Words, Work
from elmo.serve.errors import CLIENT_GONE, Problem
from elmo.serve.middleware import Metrics
from elmo.serve.schemas import Text
from elmo.serve.served import Served
from elmo.serve.settings import Settings
from elmo.text.sentence_input import read_pointed

# Longer texts are tokenized in another thread, so that other requests are served in the meantime.
CHARACTERS_ON_LOOP = 20_000
ResultT = TypeVar("ResultT")


@dataclass
class Service:
    """The objects that all requests share; `batcher` exists while the application runs."""

    settings: Settings
    served: Served
    metrics: Metrics
    batcher: Batcher | None = None


class Call:
    """A request and the limits of what it may ask for (a dependency)."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.service: Service = request.app.state.service
        self.settings, self.served = self.service.settings, self.service.served

    async def tokenize(
        self, texts: Sequence[Text], field: str, model: Elmo, *, on_spaces: bool = False
    ) -> list[list[tuple[str, int | None, int | None]]]:
        """Return the words of each text as the model splits it, with their character offsets if it was a string."""
        split = model.tokenization.tokenizer(on_spaces=on_spaces)

        def tokenize_all() -> list[Any]:
            return [split(text) if isinstance(text, str) else [(word, None, None) for word in text] for text in texts]

        sentences = await _run_in_thread(texts, tokenize_all)
        self.check_words(map(len, sentences), field)
        return sentences

    async def locate_words(
        self, model: Elmo, *targets: tuple[str, Text, int | None], on_spaces: bool = False
    ) -> list[tuple[list[str], tuple[int, int]]]:
        """Return the words of each (field, sentence, index), and the range of those marked or at the index."""
        split = model.tokenization.tokenizer(on_spaces=on_spaces)

        def read_all() -> list[tuple[list[str], tuple[int, int]]]:
            return [
                read_pointed(text, index, split, name=name.replace("sentence", "index"))
                for name, text, index in targets
            ]

        sentences = await _run_in_thread([text for _, text, _ in targets], read_all)
        self.check_words([len(words) for words, _ in sentences], targets[0][0])
        return sentences

    def check_words(self, lengths: Iterable[int], field: str) -> None:
        """Raise Problem for more sentences or words than a request may have, or for a sentence of too many."""
        lengths, limits = list(lengths), self.settings
        for count, limit, amount, advice in (
            (len(lengths), limits.max_sentences, "{} entries", "send several requests"),
            (sum(lengths), limits.max_words, "{} words", "send several requests"),
            (max(lengths, default=0), limits.max_sentence_words, "a sentence of {} words", "split it into sentences"),
        ):
            if count > limit:
                message = f"{field} has {amount.format(count)}, but at most {limit} are accepted; {advice}."
                raise Problem(413, "too_large", message, field=field)

    def check_values(self, num_words: int, values_per_word: int, field: str) -> None:
        """Raise Problem if the response would have too many numbers."""
        count, limit = num_words * values_per_word, self.settings.max_values
        if count > limit:
            advice = f"ask for {max(1, limit // values_per_word)} words at once, or for fewer layers"
            message = f"The response would have {count} numbers, but at most {limit} are sent; {advice}."
            raise Problem(413, "answer_too_large", message, field=field)

    async def run(self, function: Callable[[], ResultT], words: Words) -> ResultT:
        """Return the result of a function, computed alone; it takes the queue space of these words."""
        (result,) = await self.compute(Work(object(), lambda _: [function()]), [words])
        return result  # type: ignore[no-any-return]

    async def compute(self, work: Work, sentences: Sequence[Words]) -> list[Any]:
        """Return one result per sentence; Problem if the client disconnects or the time is up before."""
        assert self.service.batcher is not None
        results = self.service.batcher.submit(work, sentences)
        disconnect: asyncio.Future[Any] = asyncio.ensure_future(self._wait_for_disconnect())
        seconds = self.settings.max_seconds
        try:
            await asyncio.wait([results, disconnect], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if results.done():
                return results.result()
            if disconnect.done():
                raise Problem(CLIENT_GONE, "client_gone", "The client closed the connection.")
            message = f"The result was not ready within {seconds:g} seconds; try again, or with less text."
            raise Problem(504, "too_slow", message)
        finally:
            results.cancel()
            disconnect.cancel()

    async def _wait_for_disconnect(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass


CallOf = Annotated[Call, Depends(Call)]


async def _run_in_thread(texts: Sequence[Text], function: Callable[[], ResultT]) -> ResultT:
    """Call a function on texts, in another thread if they are long."""
    if sum(len(text) for text in texts if isinstance(text, str)) > CHARACTERS_ON_LOOP:
        return await asyncio.to_thread(function)
    return function()
