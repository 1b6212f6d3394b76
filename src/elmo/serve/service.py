"""The functions that all routes share: tokenizing texts, checking limits, and computing results with the batcher."""

import asyncio
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request

from elmo.model import Elmo
from elmo.serve.batching import Batcher, BatchFunction, Sentence, count_tokens
from elmo.serve.errors import ApiError
from elmo.serve.middleware import Metrics
from elmo.serve.schemas import Text
from elmo.serve.served import Served
from elmo.serve.settings import Settings
from elmo.text.sentence_input import read_target

ResultT = TypeVar("ResultT")


@dataclass
class Service:
    """The objects that all requests share, and the steps of processing a request."""

    settings: Settings
    served: Served
    metrics: Metrics
    batcher: Batcher

    async def tokenize(
        self, texts: Sequence[Text], field: str, model: Elmo, *, on_spaces: bool = False
    ) -> list[list[tuple[str, int | None, int | None]]]:
        """Return the words of each text, with their character offsets if the text is a string."""
        tokenizer = model.tokenization.tokenizer(on_spaces=on_spaces)

        def tokenize_all() -> list[Any]:
            return [
                tokenizer(text) if isinstance(text, str) else [(word, None, None) for word in text] for text in texts
            ]

        sentences = await asyncio.to_thread(tokenize_all)
        self.check_words(sentences, field)
        return sentences

    async def locate_words(
        self, model: Elmo, *targets: tuple[str, Text, int | None]
    ) -> list[tuple[list[str], tuple[int, int]]]:
        """Return the words of each (field, sentence, index), and the range of the marked or indexed words."""

        def read_all() -> list[tuple[list[str], tuple[int, int]]]:
            return [
                read_target(text, index, model.tokenization, name=field.replace("sentence", "index"))
                for field, text, index in targets
            ]

        sentences = await asyncio.to_thread(read_all)
        self.check_words([words for words, _ in sentences], targets[0][0])
        return sentences

    def check_words(self, sentences: Sequence[Sequence[Any]], field: str) -> None:
        """Raise ApiError if a request has too many words, including two boundaries per sentence."""
        count, limit = count_tokens(sentences), self.settings.max_words
        if count > limit:
            message = f"{field} has {count} words, with two boundaries per sentence, but at most {limit} are accepted"
            raise ApiError(413, "too_large", f"{message}; send several requests.", field=field)

    def check_values(self, num_words: int, values_per_word: int, field: str) -> None:
        """Raise ApiError if the response would have too many numbers."""
        count, limit = num_words * values_per_word, self.settings.max_values
        if count > limit:
            advice = f"ask for {max(1, limit // values_per_word)} words at once, or for fewer layers"
            message = f"The response would have {count} numbers, but at most {limit} are sent; {advice}."
            raise ApiError(413, "response_too_large", message, field=field)

    async def run(self, function: Callable[[], ResultT], sentences: Sequence[Sentence]) -> ResultT:
        """Run a function of these sentences in the compute thread and return its result."""
        words = [*itertools.chain.from_iterable(sentences)]  # one entry in the queue, which is not split
        (result,) = await self.compute(object(), lambda _: [function()], [words])
        return result  # type: ignore[no-any-return]

    async def compute(self, key: Hashable, function: BatchFunction, sentences: Sequence[Sentence]) -> list[Any]:
        """Return the results of Batcher.compute, one per sentence. Raises ApiError if they are not ready in time."""
        seconds = self.settings.max_seconds
        try:
            return await asyncio.wait_for(self.batcher.compute(key, function, sentences), seconds)
        except asyncio.TimeoutError as error:
            message = f"The result was not ready within {seconds:g} seconds; try again, or with less text."
            raise ApiError(504, "result_timeout", message) from error


def _get_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(_get_service)]
