"""An address -> a file in the cache: downloaded once, and resumed if it was interrupted.

The hub's library transfers the bytes and checks their number.
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

_URL_PUNCTUATION = "%/:=&?~+!$,;'@()*[]"
# How files begin by their suffix: login pages of networks are sent instead of any file.
_SIGNATURES = {".json": b"{", ".hdf5": b"\x89HDF"}


def fetch_url(
    url: str, *, cache: Path | None = None, folder: str | None = None, local_files_only: bool = False
) -> Path:
    """Download `url` unless the cache has it, and return the cached file.

    `folder`, relative to the cache, puts several addresses side by side; by default each has its own.
    Raises CheckpointError if the file is not available, or not of the kind that its name says.
    """
    url = _parse(url)
    cache = cache_folder() if cache is None else cache
    name = re.sub(r"[^\w.-]", "_", PurePosixPath(unquote(urlsplit(url).path)).name).lstrip(".")
    target = cache / (folder or f"urls/{_short_hash(url)}") / (name or "file")
    if target.exists():
        return target
    if local_files_only:
        raise CheckpointError(
            f"{url} is not in the cache ({target} does not exist) and local_files_only forbids downloading it; allow "
            "the download once, or give the path of a local copy."
        )
    # Outside the target's folder, which is to hold a model and nothing else.
    lock = cache / "locks" / f"{_short_hash(target.relative_to(cache).as_posix())}.lock"
    try:
        for path in (target, lock):
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
    except OSError as error:
        # Network errors never come this far: this is the disk.
        raise CheckpointError(
            f"{target} cannot be read or written: {error}; free some space, or choose another cache with the "
            "environment variable ELMO_CACHE."
        ) from error
    return target


def _parse(url: str) -> str:
    """Return the address as it is sent."""
    with suppress(ValueError):
        parts = urlsplit(urldefrag(url).url)
        # Anything else that urllib opens, such as file:, is not a download.
        if parts.scheme in ("http", "https") and parts.hostname:
            return quote(parts.geturl(), safe=_URL_PUNCTUATION)
    raise CheckpointError(f"{url!r} is not an http:// or https:// address; give one, or a local path.")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _transfer(url: str, target: Path) -> Path:
    """Return the downloaded file; what an earlier process left of the same file is completed."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.file_download import http_get

    try:
        metadata = get_hf_file_metadata(url, token=False)  # the user's token is for the hub alone
        is_known = metadata.etag is not None and metadata.location == url
        # Named by the ETag, so that only the rest of the very same file is added to it.
        partial = target.with_name(f"{target.name}.{_short_hash(str(metadata.etag))}.partial")
        with partial.open("ab" if is_known else "wb") as file:
            size = metadata.size if is_known else None
            http_get(url, file, resume_size=file.tell(), expected_size=size, displayed_filename=target.name)
            file.flush()
            os.fsync(file.fileno())
        return partial
    except Exception as error:  # those of the transport come from another library in each version of the hub
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk
        raise CheckpointError(
            f"{url} cannot be downloaded ({first_line(error)}); check the address and the network and try again, or "
            "give the path of a local copy."
        ) from error
