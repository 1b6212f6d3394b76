"""A request on its way in: who may ask, how much may be sent, its words, and the wait for its results."""

import asyncio
import functools
import hmac
import ipaddress
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import anyio
from fastapi import Depends
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from elmo.model import Elmo
from elmo.serve.batching import Batcher, Words, Work
from elmo.serve.errors import CLIENT_GONE, Problem
from elmo.serve.metrics import Metrics
from elmo.serve.schemas import Text
from elmo.serve.served import Served
from elmo.serve.settings import Settings
from elmo.text.sentence_input import Tokenizer, read_pointed

# Longer texts are tokenized in another thread, so that other requests are served in the meantime.
CHARACTERS_ON_LOOP = 20_000
# Results that come sooner need no task that watches whether the client leaves.
SECONDS_BEFORE_WATCHING = 0.05
ResultT = TypeVar("ResultT")


@dataclass
class Service:
    """What all requests share; `batcher` exists while the application runs."""

    settings: Settings
    served: Served
    metrics: Metrics
    key: bytes | None
    hosts: frozenset[str]
    batcher: Batcher | None = None


async def get_service(request: Request) -> Service:
    """Return the service of the application (a dependency)."""
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(get_service)]


async def check_access(request: Request, service: ServiceOf) -> None:
    """Refuse a request without the key or, if the server has no key, for another Host (a dependency)."""
    if service.key is None:
        host = request.headers.get("host")
        if not is_known_host(host, service.hosts):
            service.metrics.refused.labels("host").inc()
            raise Problem(
                403,
                "unknown_host",
                f"This server is not known as {host!r:.80}; use its address, or start it with --allowed-host NAME "
                "or with a key.",
            )
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if not hmac.compare_digest(given.encode("utf-8"), service.key):
        service.metrics.refused.labels("key").inc()
        raise Problem(
            401,
            "unauthorized",
            "The key is missing or wrong; send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
            headers={"WWW-Authenticate": "Bearer"},
        )


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


@dataclass(frozen=True)
class TokenizedSentence:
    """The words of a sentence, and their character offsets if it was a string."""

    words: list[str]
    offsets: list[tuple[int, int]] | None


class Call(Request):
    """A request with a JSON body: its body and words within the limits, and the wait for its results."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self._service: Service = self.app.state.service
        self._limits = self._service.settings
        self.served = self._service.served

    async def body(self) -> bytes:
        """Read the body; Problem if it is too long or comes too slowly."""
        # FastAPI reads the body before it solves dependencies, but only who may ask may send one.
        await check_access(self, self._service)
        announced = self.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._limits.max_body_bytes:
            raise _body_too_long(self._limits.max_body_bytes)
        try:
            with anyio.fail_after(self._limits.max_seconds):
                self._body = await self._read(self._limits.max_body_bytes)
        except TimeoutError as error:
            message = f"The body did not arrive within {self._limits.max_seconds:g} seconds."
            raise Problem(408, "too_slow", message, headers={"Connection": "close"}) from error
        except ClientDisconnect as error:
            raise _client_gone() from error
        return self._body or b" "  # which is invalid JSON, whereas FastAPI takes an empty body for none

    async def json(self) -> Any:
        """Return the parsed body."""
        try:
            return from_json(self._body, allow_inf_nan=False)
        except ValueError as error:
            message = f"The body is not valid JSON ({error}); send a JSON object."
            raise Problem(400, "invalid_json", message) from error

    async def _read(self, max_bytes: int) -> bytes:
        body = bytearray()
        async for part in self.stream():
            body += part
            if len(body) > max_bytes:
                raise _body_too_long(max_bytes)
        return bytes(body)

    async def tokenize(
        self, texts: Sequence[Text], field: str, model: Elmo, *, on_spaces: bool = False
    ) -> list[TokenizedSentence]:
        """Split texts into words as the model does; Problem if there are too many of either."""
        self.check_count(len(texts), field)
        self.check_words([_count_at_least(text, on_spaces) for text in texts], field)
        split = model.tokenization.tokenizer(on_spaces=on_spaces)
        read = await _off_loop(texts, lambda: [_tokenize(text, split) for text in texts])
        self.check_words([len(sentence.words) for sentence in read], field)
        return read

    async def point(
        self, model: Elmo, *pointed: tuple[str, Text, int | None], on_spaces: bool = False
    ) -> list[tuple[list[str], tuple[int, int]]]:
        """Return the words of each (field, sentence, index), and the range of those marked or at the index."""
        texts, field = [text for _, text, _ in pointed], pointed[0][0]
        split = model.tokenization.tokenizer(on_spaces=on_spaces)

        def read_all() -> list[tuple[list[str], tuple[int, int]]]:
            return [
                read_pointed(text, index, split, name=name.replace("sentence", "index"))
                for name, text, index in pointed
            ]

        self.check_words([_count_at_least(text, on_spaces) for text in texts], field)
        read = await _off_loop(texts, read_all)
        self.check_words([len(words) for words, _ in read], field)
        return read

    def check_count(self, count: int, field: str) -> None:
        """Refuse more entries than a request may have."""
        self._check(count, self._limits.max_sentences, field, f"{count} entries", "send several requests")

    def check_words(self, lengths: list[int], field: str, *, each: bool = True) -> None:
        """Refuse more words than a request may have; with `each`, also more than one sentence may have."""
        total, longest = sum(lengths), max(lengths, default=0)
        self._check(total, self._limits.max_words, field, f"{total} words or more", "send several requests")
        if each:
            limit = self._limits.max_sentence_words
            self._check(longest, limit, field, f"a sentence of {longest} words", "split it into sentences")

    def check_values(self, num_words: int, values_per_word: int, field: str) -> None:
        """Refuse a request whose response would have too many numbers."""
        count, limit = num_words * values_per_word, self._limits.max_values
        if count > limit:
            raise Problem(
                413,
                "answer_too_large",
                f"The response would have {count} numbers, but at most {limit} are sent; ask for "
                f"{max(1, limit // values_per_word)} words at once, or for fewer layers.",
                field=field,
            )

    def _check(self, count: int, limit: int, field: str, found: str, advice: str) -> None:
        if count > limit:
            message = f"{field} has {found}, but at most {limit} are accepted; {advice}."
            raise Problem(413, "too_large", message, field=field)

    async def run(self, function: Callable[[], ResultT], words: Words) -> ResultT:
        """Return what a function returns; it is computed alone and takes the queue space of these words."""
        (result,) = await self.compute(Work(object(), lambda _: [function()]), [words])
        return result  # type: ignore[no-any-return]

    async def compute(self, work: Work, sentences: Sequence[Words]) -> list[Any]:
        """Return one result per sentence, unless the client leaves or the time is up before."""
        assert self._service.batcher is not None
        answer = self._service.batcher.submit(work, sentences)
        waited: set[asyncio.Future[Any]] = {answer}
        seconds = self._limits.max_seconds
        try:
            await asyncio.wait(waited, timeout=min(SECONDS_BEFORE_WATCHING, seconds))
            if not answer.done():
                leaving = asyncio.ensure_future(self._wait_for_leaving())
                waited.add(leaving)
                await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done() and not answer.done():
                    raise _client_gone()
            if answer.done():
                return answer.result()
            message = f"The result was not ready within {seconds:g} seconds; try again, or with less text."
            raise Problem(504, "too_slow", message)
        finally:
            for future in waited:
                future.cancel()

    async def _wait_for_leaving(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


class JsonRoute(APIRoute):
    """A route whose requests are Calls."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI, which is given another kind of request."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            # `curl -d` calls its body a form: whatever Content-Type says, the body is parsed as JSON.
            headers = [header for header in request.scope["headers"] if header[0] != b"content-type"]
            return await handle(Call({**request.scope, "headers": headers}, request.receive))

        return handle_json


async def _off_loop(texts: Sequence[Text], function: Callable[[], ResultT]) -> ResultT:
    if sum(len(text) for text in texts if isinstance(text, str)) > CHARACTERS_ON_LOOP:
        return await asyncio.to_thread(function)
    return function()


def _count_at_least(text: Text, on_spaces: bool) -> int:
    """Return a number of words that the text certainly has: no word contains a space."""
    if not isinstance(text, str):
        return len(text)
    return len(list(filter(None, text.split(" ")))) if on_spaces else len(text.split())


def _tokenize(text: Text, split: Tokenizer) -> TokenizedSentence:
    if not isinstance(text, str):
        return TokenizedSentence(text, None)
    words = split(text)
    return TokenizedSentence([word.text for word in words], [(word.start, word.end) for word in words])


def _body_too_long(limit: int) -> Problem:
    return Problem(413, "too_large", f"The body is longer than {limit} bytes; send less at once.")


def _client_gone() -> Problem:
    return Problem(CLIENT_GONE, "client_gone", "The client closed the connection.")
