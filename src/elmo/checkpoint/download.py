"""An address -> a file in the cache: downloaded once, resumed if it was interrupted, verified on every use.

The sha256 of each file is recorded in `checksums.json` at its first download, because the publishers give none; a
file whose size and modification time have not changed since is not hashed again. What a file means is the
caller's business, who may pass a `check`.
"""

import hashlib
import http.client
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urldefrag, urlsplit
from urllib.request import Request, urlopen

from filelock import FileLock

from elmo.checkpoint.location import cache_folder
from elmo.errors import CheckpointError
from elmo.files.durable import replace_file, sha256_of

Check = Callable[[Path], None]
_Show = Callable[[int, int | None], None]
_TIMEOUT_SECONDS = 20.0  # for connecting, and for each wait for more bytes
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between attempts that bring nothing new
_READ_BYTES = 1 << 16  # also the most that a broken connection can lose
_URL_PUNCTUATION = "%/:=&?~+!$,;'@()*[]"


class _BrokenTransferError(Exception):
    """One attempt failed in a way that may pass; the text says what happened."""


class _NoServerError(_BrokenTransferError):
    """No server answered at all: worth another attempt only if it answered a moment ago."""


def fetch_url(
    url: str,
    *,
    cache: Path | None = None,
    folder: str | None = None,
    local_files_only: bool = False,
    check: Check | None = None,
) -> Path:
    """Download `url` unless the cache has it, and return the cached file.

    `folder`, relative to the cache, puts several addresses side by side; by default each has its own.
    `check` sees a finished download before it is accepted and raises CheckpointError to reject it.
    Raises CheckpointError if the file is not available, is rejected, or differs from the first download.
    """
    url, host = _parse(url)
    cache = cache_folder() if cache is None else cache
    # File systems allow 255 bytes, our own suffixes included; the end of a name says its kind.
    name = _plain(PurePosixPath(unquote(urlsplit(url).path)).name).encode()[-200:].decode(errors="ignore")
    target = cache / (folder or f"urls/{_plain(host)}-{_short_hash(url)}") / (name or "file")
    try:
        if target.exists():
            _verify(cache, target, check)
            return target
        if local_files_only:
            raise CheckpointError(
                f"{url} is not in the cache ({target} does not exist) and local_files_only forbids downloading "
                "it; allow the download once, or give the path of a local copy."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        # Outside the target's folder, which is to hold a model and nothing else.
        lock = cache / "locks" / f"{_short_hash(_key(cache, target))}.lock"
        lock.parent.mkdir(exist_ok=True)
        with FileLock(lock):
            if target.exists():  # another process finished it while this one waited
                _verify(cache, target, check)
            else:
                _download(url, cache, target, check)
    except OSError as error:
        # Network errors never come this far: this is the disk.
        raise CheckpointError(
            f"{target} cannot be read or written: {error}; free some space, or choose another cache with the "
            "environment variable ELMO_CACHE."
        ) from error
    return target


def _parse(url: str) -> tuple[str, str]:
    """Return the address as it is sent, and its host."""
    try:
        parts = urlsplit(urldefrag(url).url)
        host = parts.hostname
    except ValueError as error:
        raise CheckpointError(f"{url!r} is not an address ({error}); give one, or a local path.") from error
    # Anything else that urllib opens, such as file:, is not a download.
    if parts.scheme not in ("http", "https") or not host:
        raise CheckpointError(
            f"{url!r} is not an address that can be downloaded; expected http://… or https://…, or give a local "
            "path."
        )
    return parts.geturl(), host


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Checksums


def _download(url: str, cache: Path, target: Path, check: Check | None) -> None:
    partial = target.with_name(f"{target.name}.partial")
    _transfer(url, partial)
    try:
        if check is not None:
            try:
                check(partial)
            except CheckpointError as error:
                raise CheckpointError(
                    f"{url} did not send the expected file: {str(error).rstrip('.')}; nothing was kept: look at "
                    "the address in a browser, or give the path of a local copy."
                ) from error
        _accept(cache, target, partial, url)
    except CheckpointError:
        _discard(partial)
        raise
    partial.replace(target)
    _origin_path(partial).unlink(missing_ok=True)


def _accept(cache: Path, target: Path, partial: Path, url: str) -> None:
    """Record the sha256 of a finished download for `target`, or compare it with the recorded one."""
    recorded, sha256 = _read_records(cache).get(_key(cache, target)), sha256_of(partial)
    if recorded is not None and recorded["sha256"] != sha256:
        raise CheckpointError(
            f"{url} now sends a file with sha256 {sha256}, but its first download had sha256 "
            f"{recorded['sha256']}; nothing was kept: if the new file is the one you want, remove the entry "
            f"{_key(cache, target)!r} from {cache / 'checksums.json'} and try again, otherwise give the path of a "
            "local copy."
        )
    # Renaming the download to `target` keeps its size and modification time.
    _write_record(cache, target, _describe(partial, sha256))


def _verify(cache: Path, target: Path, check: Check | None) -> None:
    """Raise CheckpointError for another file than the recorded one; check and record one that was not recorded."""
    recorded = _read_records(cache).get(_key(cache, target))
    if recorded is not None and recorded == _describe(target, recorded["sha256"]):
        return
    if check is not None and recorded is None:  # copied in by hand, for a machine without network
        try:
            check(target)
        except CheckpointError as error:
            raise CheckpointError(
                f"{target} is not the expected file: {str(error).rstrip('.')}; delete it to download it again."
            ) from error
    sha256 = sha256_of(target)
    if recorded is not None and recorded["sha256"] != sha256:
        raise CheckpointError(
            f"{target} has a checksum mismatch: its sha256 is {sha256}, but {recorded['sha256']} was recorded "
            "when it was downloaded; delete it to download it again."
        )
    try:
        _write_record(cache, target, _describe(target, sha256))
    except OSError:
        return  # a shared cache may be read-only: the file is good, and is hashed again next time


def _describe(path: Path, sha256: str) -> dict[str, Any]:
    stat = path.stat()
    return {"sha256": sha256, "num_bytes": stat.st_size, "modified_nanoseconds": stat.st_mtime_ns}


def _key(cache: Path, target: Path) -> str:
    return target.relative_to(cache).as_posix()


def _read_records(cache: Path) -> dict[str, dict[str, Any]]:
    path = cache / "checksums.json"
    try:
        records: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        if not all({"sha256", "num_bytes", "modified_nanoseconds"} == set(each) for each in records.values()):
            raise ValueError("an entry lacks its sha256, size or time")
        return records
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is not a list of checksums ({error}); delete it, and the cached files are hashed again."
        ) from error


def _write_record(cache: Path, target: Path, record: dict[str, Any]) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    # The lock makes reading, changing and writing one step among several processes.
    with FileLock(cache / "checksums.lock"):
        records = _read_records(cache) | {_key(cache, target): record}
        entries = json.dumps(dict(sorted(records.items())), indent=2)
        replace_file(cache / "checksums.json", f"{entries}\n".encode())


# Transfer over HTTP


def _transfer(url: str, partial: Path) -> None:
    """Complete `partial` from `url`, however often the connection breaks; what an earlier process left is resumed.

    Raises CheckpointError when the server refuses or stays broken.
    """
    best = _size(partial)
    failures, answered = 0, False
    with _progress(partial.stem) as show:
        while True:
            try:
                return _receive(url, partial, show)
            except _BrokenTransferError as error:
                answered = answered or not isinstance(error, _NoServerError)
                # Only growth beyond the best so far counts: a server that always breaks at the same byte must not
                # keep us here forever.
                if _size(partial) > best:
                    best, failures = _size(partial), 0
                if not answered or failures == len(_PAUSES_SECONDS):
                    raise CheckpointError(
                        f"{url} cannot be downloaded: {error}; check the network and try again (what arrived is "
                        "kept and resumed), or give the path of a local copy."
                    ) from error.__cause__
                time.sleep(_PAUSES_SECONDS[failures])
                failures += 1


def _receive(url: str, partial: Path, show: _Show) -> None:
    """Make one connection and append to `partial` until the body ends.

    Beside it stands its origin, so that another process can resume it: the address, the size, and the validator
    (ETag or Last-Modified) that distinguishes a changed file from the one that was begun.
    """
    origin = _read_origin(partial)
    validator = origin["validator"] if origin["url"] == url else None
    begun = _size(partial) if validator else 0
    if begun and begun == origin["num_bytes"]:
        return  # killed after the last byte, before the download was accepted
    headers = {"User-Agent": "modern-elmo", "Accept-Encoding": "identity"}
    if begun:
        # If-Range: the rest if the file is still the same, otherwise all of the new one.
        headers |= {"Range": f"bytes={begun}-", "If-Range": str(validator)}
    with _open(url, headers, partial) as response:
        num_bytes = origin["num_bytes"]
        if response.status == 206:
            # Some servers and proxies disregard If-Range, or the requested range.
            sent = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
            expected = (str(begun), "*" if num_bytes is None else str(num_bytes))
            if not begun or not sent or sent.groups() != expected or _validator(response) not in (None, validator):
                _discard(partial)
                raise _BrokenTransferError("the server sent another range than was requested")
        else:
            begun, num_bytes = 0, response.length
            partial.write_bytes(b"")  # before the new origin is written: old bytes must never belong to it
            origin = {"url": url, "validator": _validator(response), "num_bytes": num_bytes}
            replace_file(_origin_path(partial), json.dumps(origin).encode())
        with partial.open("ab") as file:
            received = begun
            show(received, num_bytes)
            while True:
                try:
                    block = response.read(_READ_BYTES)
                except (OSError, http.client.HTTPException) as error:
                    raise _BrokenTransferError(f"the connection broke off ({error})") from error
                if not block:
                    break
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
            _discard(partial)
        if error.code in (408, 416, 429) or error.code >= 500:
            raise _BrokenTransferError(answer) from error
        raise CheckpointError(
            f"{url} cannot be downloaded: {answer}; check the address, or give the path of a local copy."
        ) from error
    except URLError as error:
        raise _NoServerError(f"no connection ({error.reason})") from error
    except http.client.InvalidURL as error:
        raise CheckpointError(f"{url!r} is not an address ({error}); give one, or a local path.") from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenTransferError(f"the connection broke off before an answer came ({error})") from error


def _validator(response: http.client.HTTPResponse) -> str | None:
    etag = response.headers.get("ETag")
    # A weak ETag (W/"…") promises only a similar file, which is not enough to join two halves.
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")


def _origin_path(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}-origin")


def _read_origin(partial: Path) -> dict[str, Any]:
    unknown = dict.fromkeys(("url", "validator", "num_bytes"))
    try:
        origin = json.loads(_origin_path(partial).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return unknown
    return origin if isinstance(origin, dict) and origin.keys() == unknown.keys() else unknown


def _discard(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    _origin_path(partial).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _progress(name: str) -> Iterator[_Show]:
    """Yield a function that shows bytes, rate and remaining time on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda received, num_bytes: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)

        def show(received: int, num_bytes: int | None) -> None:
            # What an earlier attempt left must not count as this one's speed.
            begins = received < bar.tasks[0].completed or bar.tasks[0].completed == 0
            (bar.reset if begins else bar.update)(task, completed=received, total=num_bytes)

        yield show
