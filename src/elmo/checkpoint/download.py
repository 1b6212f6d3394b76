"""Download files into the cache: each URL only once, resuming interrupted downloads.

huggingface_hub performs the transfer and checks the file size.
"""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urldefrag, urlsplit

from filelock import FileLock

from elmo.checkpoint.location import cache_folder
from elmo.errors import CheckpointError, first_line

# The first bytes of a file by suffix: a captive portal may send its login page instead of the file.
_SIGNATURES = {".json": b"{", ".hdf5": b"\x89HDF"}


def fetch_url(url: str, *, folder: str | None = None, local_files_only: bool = False) -> Path:
    """Download `url` unless the cache has it, and return the cached file.

    Pass the same `folder`, relative to the cache, to store several files together; by default each URL has its own.
    Raises CheckpointError if the file is not available, or if its content does not match its suffix.
    """
    url, cache = _normalize_url(url), cache_folder()
    name = re.sub(r"[^\w.-]", "_", PurePosixPath(unquote(urlsplit(url).path)).name).lstrip(".")
    target = cache / (folder or f"urls/{_short_hash(url)}") / (name or "file")
    if target.exists():
        return target
    if local_files_only:
        raise CheckpointError(f"{url} is not in the cache ({target}), but local_files_only is set; download it first.")
    # Outside the target's folder, which should contain nothing but the model.
    lock = cache / "locks" / f"{_short_hash(target.relative_to(cache).as_posix())}.lock"
    try:
        for path in (target, lock):
            path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            if not target.exists():  # another process may have finished it in the meantime
                partial = _transfer(url, target)
                with partial.open("rb") as file:
                    start = file.read(40)
                if not start.startswith(_SIGNATURES.get(target.suffix, b"")):
                    partial.unlink()
                    raise CheckpointError(
                        f"{url} is not a {target.suffix} file but begins with {start.decode(errors='replace')!r}; "
                        "open the URL in a browser to check it, or give the path of a local copy."
                    )
                partial.replace(target)
    except OSError as error:
        # _transfer converts network errors, so this is a disk error.
        raise CheckpointError(
            f"{target} cannot be read or written: {error}; free up disk space, or set the environment "
            "variable ELMO_CACHE to another cache folder."
        ) from error
    return target


def _normalize_url(url: str) -> str:
    """Return the URL without its fragment; CheckpointError unless it is http or https."""
    with suppress(ValueError):
        parts = urlsplit(urldefrag(url).url)
        # urllib would also open other schemes, such as file:.
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.geturl()
    raise CheckpointError(f"{url!r} is not an http:// or https:// URL; give one, or a local path.")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _transfer(url: str, target: Path) -> Path:
    """Download to a partial file next to `target` and return it, resuming an earlier attempt if there is one."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.file_download import http_get

    try:
        metadata = get_hf_file_metadata(url, token=False)  # never send the user's Hub token to other sites
        can_resume = metadata.etag is not None and metadata.location == url
        # Named after the ETag, so that a download is resumed only if the remote file has not changed.
        partial = target.with_name(f"{target.name}.{_short_hash(str(metadata.etag))}.partial")
        with partial.open("ab" if can_resume else "wb") as file:
            size = metadata.size if can_resume else None
            http_get(url, file, resume_size=file.tell(), expected_size=size, displayed_filename=target.name)
            file.flush()
            os.fsync(file.fileno())
        return partial
    except Exception as error:  # network exceptions depend on the huggingface_hub version
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a disk error
        raise CheckpointError(
            f"{url} cannot be downloaded ({first_line(error)}); check the URL and your network connection, or give "
            "the path of a local copy."
        ) from error
