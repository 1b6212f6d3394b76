"""A request's body -> a checked object; work -> its results, unless the client leaves or time is up."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from elmo.serve.batching import Batcher, Words, Work
from elmo.serve.problems import CLIENT_GONE, Problem, from_validation, too_much
from elmo.serve.schemas import Request
from elmo.serve.settings import Settings

RequestT = TypeVar("RequestT", bound=Request)


async def read_body(request: HttpRequest, shape: type[RequestT], settings: Settings) -> RequestT:
    """Read the body, no more of it and no longer than the settings allow, and check it."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > settings.max_body_bytes:
        raise _too_long(settings)
    try:
        body = await asyncio.wait_for(_read_bytes(request, settings), settings.max_seconds)
    except asyncio.TimeoutError as error:
        raise Problem(
            408,
            "too_slow",
            f"The body did not arrive within {settings.max_seconds:g} seconds.",
            headers={"Connection": "close"},
        ) from error
    except ClientDisconnect as error:
        raise _gone() from error
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error) from error


async def compute(
    request: HttpRequest, batcher: Batcher, settings: Settings, work: Work, sentences: Sequence[Words]
) -> list[Any]:
    """Give one result a sentence. Who does not wait for them is not computed for."""
    answer = batcher.submit(work, sentences)
    leaving = asyncio.ensure_future(_wait_for_leaving(request))
    either: set[asyncio.Future[Any]] = {answer, leaving}
    try:
        await asyncio.wait(either, timeout=settings.max_seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if leaving.done():
            raise _gone()
        raise Problem(
            504,
            "too_slow",
            f"The answer was not ready within {settings.max_seconds:g} seconds; try again, or with less text.",
        )
    finally:
        answer.cancel()
        leaving.cancel()


async def _read_bytes(request: HttpRequest, settings: Settings) -> bytes:
    parts, num_bytes = [], 0
    async for part in request.stream():
        num_bytes += len(part)
        if num_bytes > settings.max_body_bytes:
            raise _too_long(settings)
        parts.append(part)
    return b"".join(parts)


async def _wait_for_leaving(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_long(settings: Settings) -> Problem:
    return too_much(f"The body is longer than {settings.max_body_bytes} bytes; send less at once.", None)


def _gone() -> Problem:
    return Problem(CLIENT_GONE, "client_gone", "The client closed the connection.")
