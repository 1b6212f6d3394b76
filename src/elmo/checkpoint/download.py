"""An address -> a file in the cache: downloaded once, and resumed if it was interrupted.

The hub's library transfers the bytes and checks their number. The publishers give no checksums, so the SHA-256 of
the first download is recorded; a file whose size and modification time have not changed is not hashed again.
"""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urldefrag, urlsplit

from filelock import FileLock

from elmo.checkpoint.location import cache_folder
from elmo.errors import CheckpointError, first_line
from elmo.files.durable import replace_file, sha256_of

_URL_PUNCTUATION = "%/:=&?~+!$,;'@()*[]"
# How files begin by their suffix: login pages of networks are sent instead of any file.
_SIGNATURES = {".json": b"{", ".hdf5": b"\x89HDF"}


def fetch_url(
    url: str, *, cache: Path | None = None, folder: str | None = None, local_files_only: bool = False
) -> Path:
    """Download `url` unless the cache has it, and return the cached file.

    `folder`, relative to the cache, puts several addresses side by side; by default each has its own.
    Raises CheckpointError if the file is not available, not of the kind that its name says, or not the one that was
    downloaded first.
    """
    url, host = _parse(url)
    cache = cache_folder() if cache is None else cache
    # File systems allow 255 bytes, our own suffixes included; the end of a name says its kind.
    name = _plain(PurePosixPath(unquote(urlsplit(url).path)).name).encode()[-200:].decode(errors="ignore")
    target = cache / (folder or f"urls/{_plain(host)}-{_short_hash(url)}") / (name or "file")
    record = cache / "checksums" / f"{_short_hash(target.relative_to(cache).as_posix())}.txt"
    if target.exists():
        _check_record(target, record)
        return target
    if local_files_only:
        raise CheckpointError(
            f"{url} is not in the cache ({target} does not exist) and local_files_only forbids downloading it; allow "
            "the download once, or give the path of a local copy."
        )
    # Outside the target's folder, which is to hold a model and nothing else.
    lock = cache / "locks" / f"{_short_hash(target.relative_to(cache).as_posix())}.lock"
    try:
        for path in (target, lock, record):
            path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            if not target.exists():  # no other process finished it while this one waited
                partial = _transfer(url, target)
                with partial.open("rb") as file:
                    beginning = file.read(40)
                if not beginning.startswith(_SIGNATURES.get(target.suffix, b"")):
                    partial.unlink()
                    raise CheckpointError(
                        f"{url} is not a {target.suffix} file but begins with {beginning.decode(errors='replace')!r}; "
                        "look at the address in a browser, or give the path of a local copy."
                    )
                partial.replace(target)
        _check_record(target, record)
    except OSError as error:
        # Network errors never come this far: this is the disk.
        raise CheckpointError(
            f"{target} cannot be read or written: {error}; free some space, or choose another cache with the "
            "environment variable ELMO_CACHE."
        ) from error
    return target


def _check_record(file: Path, record: Path) -> None:
    """Raise CheckpointError if a file is not the one that was downloaded first; record it if it is the first."""
    stat = file.stat()
    stamp = [str(stat.st_size), str(stat.st_mtime_ns)]
    recorded = record.read_text(encoding="utf-8", errors="replace").split() if record.exists() else []
    if recorded[1:] == stamp:
        return
    sha256 = sha256_of(file)
    if len(recorded) == 3 and recorded[0] != sha256:
        raise CheckpointError(
            f"{file} has the SHA-256 {sha256}, but the first download had {recorded[0]}; delete the file to download "
            f"it again, or delete {record} to accept it."
        )
    with suppress(OSError):  # a shared cache may be read-only
        replace_file(record, " ".join([sha256, *stamp]).encode())


def _parse(url: str) -> tuple[str, str]:
    """Return the address as it is sent, and its host."""
    with suppress(ValueError):
        parts = urlsplit(urldefrag(url).url)
        # Anything else that urllib opens, such as file:, is not a download.
        if parts.scheme in ("http", "https") and parts.hostname:
            return quote(parts.geturl(), safe=_URL_PUNCTUATION), parts.hostname
    raise CheckpointError(f"{url!r} is not an http:// or https:// address; give one, or a local path.")


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
            expected_size = metadata.size if is_known else None
            with partial.open("ab") as file:
                http_get(
                    url, file, resume_size=file.tell(), expected_size=expected_size, displayed_filename=target.name
                )
                file.flush()
                os.fsync(file.fileno())
            return partial
        except Exception as error:  # those of the transport come from another library in each version of the hub
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk
            before, size = size, partial.stat().st_size if partial.exists() else 0
            if size <= before:  # no progress since the last attempt
                raise CheckpointError(
                    f"{url} cannot be downloaded ({first_line(error)}); check the address and the network and try "
                    "again, or give the path of a local copy."
                ) from error
