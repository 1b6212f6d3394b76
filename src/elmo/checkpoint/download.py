"""An address -> a file in the cache: downloaded once, resumed if it was interrupted, verified on every use.

The sha256 of each file is recorded at its first download, because the publishers give none; a file whose size and
modification time have not changed since is not hashed again. What a file means is the caller's business, who may
pass a `check`. The hub's library transfers the bytes.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urlsplit

from filelock import FileLock

from elmo.checkpoint.location import cache_folder
from elmo.errors import CheckpointError, first_line
from elmo.files.durable import replace_file, sha256_of

Check = Callable[[Path], None]
_URL_PUNCTUATION = "%/:=&?~+!$,;'@()*[]"


def fetch_url(
    url: str,
    *,
    cache: Path | None = None,
    folder: str | None = None,
    local_files_only: bool = False,
    check: Check = lambda path: None,
) -> Path:
    """Download `url` unless the cache has it, and return the cached file.

    `folder`, relative to the cache, puts several addresses side by side; by default each has its own.
    `check` examines a new file before it is accepted and raises CheckpointError to reject it.
    Raises CheckpointError if the file is not available, is rejected, or differs from the first download.
    """
    url, host = _parse(url)
    cache = cache_folder() if cache is None else cache
    # File systems allow 255 bytes, our own suffixes included; the end of a name says its kind.
    name = _plain(PurePosixPath(unquote(urlsplit(url).path)).name).encode()[-200:].decode(errors="ignore")
    target = cache / (folder or f"urls/{_plain(host)}-{_short_hash(url)}") / (name or "file")
    # Outside the target's folder, which is to hold a model and nothing else.
    record = cache / "checksums" / f"{_short_hash(target.relative_to(cache).as_posix())}.json"
    try:
        if not target.exists():
            if local_files_only:
                raise CheckpointError(
                    f"{url} is not in the cache ({target} does not exist) and local_files_only forbids "
                    "downloading it; allow the download once, or give the path of a local copy."
                )
            for path in (target, record):
                path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(record.with_suffix(".lock")):
                if not target.exists():  # no other process finished it while this one waited
                    _download(url, target, record, check)
        _verify(target, record, check)
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
        raise CheckpointError(f"{url!r} is not an http:// or https:// address; give one, or a local path.")
    return quote(parts.geturl(), safe=_URL_PUNCTUATION), host


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _download(url: str, target: Path, record: Path, check: Check) -> None:
    partial = _transfer(url, target)
    try:
        try:
            check(partial)
        except CheckpointError as error:
            raise CheckpointError(
                f"{url} did not send the expected file: {str(error).rstrip('.')}; nothing was kept: look at the "
                "address in a browser, or give the path of a local copy."
            ) from error
        recorded, sha256 = _read_record(record), sha256_of(partial)
        if recorded and recorded["sha256"] != sha256:
            raise CheckpointError(
                f"{url} now sends a file with sha256 {sha256}, but its first download had sha256 "
                f"{recorded['sha256']}; nothing was kept: if the new file is the one you want, delete {record} "
                "and try again, otherwise give the path of a local copy."
            )
    except CheckpointError:
        partial.unlink()
        raise
    # Renaming the download to `target` keeps its size and modification time.
    _write_record(record, partial, sha256)
    partial.replace(target)


def _transfer(url: str, target: Path) -> Path:
    """Return the downloaded file; what an earlier process left of the same file is completed."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.file_download import http_get

    partial, size = target.with_name(f"{target.name}.partial"), 0
    while True:
        try:
            metadata = get_hf_file_metadata(url, token=False)  # the user's token is for the hub alone
            is_known = metadata.etag is not None and metadata.location == url
            if is_known:
                # Named by the ETag, so that only the rest of the very same file is added to it.
                partial = target.with_name(f"{target.name}.{_short_hash(str(metadata.etag))}.partial")
            else:
                partial.unlink(missing_ok=True)
            with partial.open("ab") as file:
                http_get(
                    url,
                    file,
                    resume_size=file.tell(),
                    expected_size=metadata.size if is_known else None,
                    displayed_filename=target.name,
                )
                file.flush()
                os.fsync(file.fileno())
            return partial
        except Exception as error:  # those of the transport come from another library in each version of the hub
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk
            before, size = size, partial.stat().st_size if partial.exists() else 0
            if size <= before:  # not even some more of it arrived
                raise CheckpointError(
                    f"{url} cannot be downloaded ({first_line(error)}); check the address and the network and try "
                    "again, or give the path of a local copy."
                ) from error


def _verify(target: Path, record: Path, check: Check) -> None:
    """Raise CheckpointError for another file than the recorded one; check and record one that was not recorded."""
    recorded = _read_record(record)
    if recorded and recorded == _describe(target, recorded["sha256"]):
        return
    if not recorded:  # copied in by hand, for a machine without network
        try:
            check(target)
        except CheckpointError as error:
            raise CheckpointError(
                f"{target} is not the expected file: {str(error).rstrip('.')}; delete it to download it again."
            ) from error
    sha256 = sha256_of(target)
    if recorded and recorded["sha256"] != sha256:
        raise CheckpointError(
            f"{target} has a checksum mismatch: its sha256 is {sha256}, but {recorded['sha256']} was recorded "
            "when it was downloaded; delete it to download it again."
        )
    try:
        _write_record(record, target, sha256)
    except OSError:
        return  # a shared cache may be read-only: the file is good, and is hashed again next time


def _describe(path: Path, sha256: str) -> dict[str, Any]:
    stat = path.stat()
    return {"sha256": sha256, "num_bytes": stat.st_size, "modified_nanoseconds": stat.st_mtime_ns}


def _read_record(path: Path) -> dict[str, Any]:
    """Return the record of a file, empty if there is none or it is damaged: then the file is hashed again."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record if isinstance(record, dict) and "sha256" in record else {}
    except (FileNotFoundError, ValueError):
        return {}


def _write_record(record: Path, path: Path, sha256: str) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    replace_file(record, json.dumps(_describe(path, sha256)).encode())
