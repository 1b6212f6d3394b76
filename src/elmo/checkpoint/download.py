"""An address -> a file in the cache, downloaded once and verified ever after.

The transfer itself is in `transfer.py`, the record of what was downloaded in `checksums.py`.
What the file means is for the caller to know, who may hand in a `check`.
"""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urldefrag, urlsplit

from filelock import FileLock

from elmo.checkpoint.checksums import Checksums
from elmo.checkpoint.transfer import discard, keep, transfer
from elmo.errors import CheckpointError

Check = Callable[[Path], None]


def cache_folder() -> Path:
    """Return the one cache root: `$ELMO_CACHE`, or `modern-elmo` in `$XDG_CACHE_HOME`, or in `~/.cache`."""
    if chosen := os.environ.get("ELMO_CACHE"):
        return Path(chosen).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "modern-elmo"


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
    `check` sees a finished download before it is accepted and raises CheckpointError to refuse it.
    Raises CheckpointError if the file cannot be had, is refused, or is not what was once downloaded.
    """
    url, host = _parse(url)
    cache = cache_folder() if cache is None else cache
    target = cache / (folder or f"urls/{_plain(host)}-{_short_hash(url)}") / _name_of(url)
    checksums = Checksums(cache)
    try:
        if target.exists():
            _verify(target, checksums, check)
            return target
        if local_files_only:
            raise CheckpointError(
                f"{url} is not in the cache ({target} does not exist) and local_files_only forbids to"
                " download it; allow the download once, or give a local copy's path."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(_lock_path(cache, target)):
            # Another process may have finished it while this one waited.
            if target.exists():
                _verify(target, checksums, check)
            else:
                _download(url, target, checksums, check)
    except OSError as error:
        # Network errors never come this far: this is the disk.
        raise CheckpointError(
            f"{target} cannot be read or written: {error}; free some space, or choose another cache with"
            " the environment variable ELMO_CACHE."
        ) from error
    return target


def _download(url: str, target: Path, checksums: Checksums, check: Check | None) -> None:
    partial = target.with_name(target.name + ".partial")
    transfer(url, partial)
    try:
        if check is not None:
            _run_check(check, partial, url)
        checksums.accept(target, partial, url)
    except CheckpointError:
        discard(partial)
        raise
    keep(partial, target)


def _run_check(check: Check, partial: Path, url: str) -> None:
    try:
        check(partial)
    except CheckpointError as error:
        raise CheckpointError(
            f"{url} did not send what was expected: {_inner(error)}; nothing was kept: look at the address in"
            " a browser, or give a local copy's path."
        ) from error


def _inner(error: CheckpointError) -> str:
    return str(error).rstrip(".")


def _verify(target: Path, checksums: Checksums, check: Check | None) -> None:
    # A file copied in by hand, for a machine without network, has passed no check yet.
    if check is not None and not checksums.is_recorded(target):
        try:
            check(target)
        except CheckpointError as error:
            raise CheckpointError(
                f"{target} is not what was expected: {_inner(error)}; delete it so that it is downloaded again."
            ) from error
    checksums.verify(target)


def _parse(url: str) -> tuple[str, str]:
    """The address as it is sent, and its host."""
    try:
        parts = urlsplit(urldefrag(url).url)
        host = parts.hostname
    except ValueError as error:
        raise CheckpointError(f"{url!r} is not an address ({error}); give one, or a local path.") from error
    # Anything else that urllib opens, such as file:, is not a download.
    if parts.scheme not in ("http", "https") or not host:
        raise CheckpointError(
            f"{url!r} is not an address that can be downloaded; expected http://… or https://…, or give a"
            " local path."
        )
    return parts.geturl(), host


def _name_of(url: str) -> str:
    name = _plain(PurePosixPath(unquote(urlsplit(url).path)).name)
    # File systems allow 255 bytes, endings of ours included; the end of a name tells its kind.
    return name.encode()[-200:].decode(errors="ignore") or "file"


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lock_path(cache: Path, target: Path) -> Path:
    """Outside the target's folder, which is to hold a model and nothing else."""
    locks = cache / "locks"
    locks.mkdir(exist_ok=True)
    return locks / f"{_short_hash(target.relative_to(cache).as_posix())}.lock"
