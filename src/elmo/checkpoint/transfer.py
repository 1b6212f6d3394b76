"""An address -> the complete bytes in a `.partial` file, over HTTP, however often the connection breaks.

What an earlier call or a killed process left is continued, if the server still has the same file.
Where the file goes in the end, and whether it is the right one, is decided by the caller.
"""

import http.client
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from elmo.errors import CheckpointError
from elmo.files.durable import replace_file

_TIMEOUT_SECONDS = 20.0  # for connecting, and for each wait for more bytes
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between tries that bring nothing new
_READ_BYTES = 1 << 16  # also the most that a broken connection can lose
_URL_PUNCTUATION = "%/:=&?~+!$,;'@()*[]"

_Show = Callable[[int, int | None], None]


@dataclass(frozen=True)
class _Origin:
    """Where a partial file comes from; stored next to it, so that another process can continue it."""

    url: str
    validator: str | None  # ETag or Last-Modified: tells a changed file from the one that was begun
    num_bytes: int | None


class _BrokenTransferError(Exception):
    """One try failed in a way that may pass; the text is what happened."""


class _NoServerError(_BrokenTransferError):
    """No server answered at all: worth another try only if it answered a moment ago."""


def transfer(url: str, partial: Path) -> None:
    """Complete `partial` from `url`; raises CheckpointError when the server refuses or stays broken."""
    best = _size(partial)
    failures, answered = 0, False
    with _progress(partial) as show:
        while True:
            try:
                _receive(url, partial, show)
                return
            except _BrokenTransferError as error:
                answered = answered or not isinstance(error, _NoServerError)
                # Only growth beyond the best so far counts: a server that always breaks at the same byte
                # must not keep us here for ever.
                if _size(partial) > best:
                    best, failures = _size(partial), 0
                if not answered or failures == len(_PAUSES_SECONDS):
                    raise CheckpointError(
                        f"{url} cannot be downloaded: {error}; check the network and try again (what arrived"
                        " is kept and continued), or give a local copy's path."
                    ) from error.__cause__
                time.sleep(_PAUSES_SECONDS[failures])
                failures += 1


def discard(partial: Path) -> None:
    """Remove a partial file and the note about its origin."""
    partial.unlink(missing_ok=True)
    _origin_path(partial).unlink(missing_ok=True)


def keep(partial: Path, target: Path) -> None:
    """Give a completed partial file its final name."""
    partial.replace(target)
    _origin_path(partial).unlink(missing_ok=True)


def _receive(url: str, partial: Path, show: _Show) -> None:
    """One connection: append to `partial` until the body ends."""
    origin = _read_origin(partial)
    begun = _size(partial) if origin is not None and origin.url == url and origin.validator else 0
    if origin is not None and begun and begun == origin.num_bytes:
        return  # killed after the last byte, before the caller accepted it
    headers = {"User-Agent": "modern-elmo", "Accept-Encoding": "identity"}
    if origin is not None and origin.validator and begun:
        # If-Range: the rest if the file is still the same, otherwise all of the new one.
        headers |= {"Range": f"bytes={begun}-", "If-Range": origin.validator}
    with _open(url, headers, partial) as response:
        if response.status == 206:
            # Some servers and proxies disregard If-Range, or the place asked for.
            if (
                origin is None
                or _content_range(response) != (begun, origin.num_bytes)
                or _validator(response) not in (None, origin.validator)
            ):
                discard(partial)
                raise _BrokenTransferError("the server sent another part than was asked for")
            num_bytes = origin.num_bytes
        else:
            begun, num_bytes = 0, response.length
            # Emptied before the new origin is noted: old bytes must never stand under it.
            partial.write_bytes(b"")
            new_origin = _Origin(url, _validator(response), num_bytes)
            replace_file(_origin_path(partial), json.dumps(asdict(new_origin)).encode())
        with partial.open("ab") as file:
            received = begun
            show(received, num_bytes)
            while block := _read_block(response):
                file.write(block)
                received += len(block)
                show(received, num_bytes)
            file.flush()
            os.fsync(file.fileno())
    if num_bytes is not None and received != num_bytes:
        raise _BrokenTransferError(f"the connection broke off after {received} of {num_bytes} bytes")


def _open(url: str, headers: dict[str, str], partial: Path) -> http.client.HTTPResponse:
    try:
        request = Request(quote(url, safe=_URL_PUNCTUATION), headers=headers)
        response: http.client.HTTPResponse = urlopen(request, timeout=_TIMEOUT_SECONDS)
        return response
    except HTTPError as error:
        error.close()
        answer = f"the server answered HTTP {error.code} {error.reason}"
        if error.code == 416:  # the file there is now shorter than what we have of it
            discard(partial)
        if error.code in (408, 416, 429) or error.code >= 500:
            raise _BrokenTransferError(answer) from error
        raise CheckpointError(
            f"{url} cannot be downloaded: {answer}; check the address, or give a local copy's path."
        ) from error
    except URLError as error:
        raise _NoServerError(f"no connection ({error.reason})") from error
    except http.client.InvalidURL as error:
        raise CheckpointError(f"{url!r} is not an address ({error}); give one, or a local path.") from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenTransferError(f"the connection broke off before an answer came ({error})") from error


def _read_block(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_READ_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenTransferError(f"the connection broke off ({error})") from error


def _validator(response: http.client.HTTPResponse) -> str | None:
    etag = response.headers.get("ETag")
    # A weak ETag (W/"…") promises only a similar file, which is not enough to join two halves.
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")


def _content_range(response: http.client.HTTPResponse) -> tuple[int, int | None] | None:
    """The first byte sent and the size of the whole file."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    return match and (int(match[1]), None if match[2] == "*" else int(match[2]))


def _origin_path(partial: Path) -> Path:
    return partial.with_name(partial.name + "-origin")


def _read_origin(partial: Path) -> _Origin | None:
    try:
        return _Origin(**json.loads(_origin_path(partial).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _progress(partial: Path) -> Iterator[_Show]:
    """A bar with bytes, rate and remaining time on stderr, if a person is looking."""
    if not sys.stderr.isatty():
        yield lambda received, num_bytes: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(partial.stem, total=None)

        def show(received: int, num_bytes: int | None) -> None:
            # What an earlier call left must not count as this one's speed.
            begins = received < bar.tasks[0].completed or bar.tasks[0].completed == 0
            (bar.reset if begins else bar.update)(task, completed=received, total=num_bytes)

        yield show
