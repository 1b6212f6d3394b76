"""A downloaded file -> the sha256 it had at its first download, kept in `checksums.json` of the cache.

A file whose size and modification time have not changed since it was last verified is not hashed again,
so that full-size models open fast. Nothing is downloaded here.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from elmo.errors import CheckpointError
from elmo.files.durable import replace_file

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """What was true of a file when it was last verified."""

    sha256: str
    num_bytes: int
    modified_nanoseconds: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> "FileRecord":
        """Describe `path`, whose content hashes to `sha256`."""
        stat = path.stat()
        return cls(sha256, stat.st_size, stat.st_mtime_ns)


class Checksums:
    """The `checksums.json` of one cache; entries are named by the file's path inside the cache."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.path = cache / "checksums.json"

    def accept(self, target: Path, downloaded: Path, url: str) -> None:
        """Record the sha256 of a finished download for `target`, or compare it with the recorded one.

        Raises CheckpointError when `url` once sent something else.
        """
        recorded = self._read().get(self._key(target))
        sha256 = sha256_of(downloaded)
        if recorded is not None and recorded.sha256 != sha256:
            raise CheckpointError(
                f"{url} now sends a file with sha256 {sha256}, but its first download had sha256"
                f" {recorded.sha256}; nothing was kept: if the new file is the one you want, remove the entry"
                f" {self._key(target)!r} from {self.path} and try again, otherwise give a local copy's path."
            )
        # Renaming the download to `target` keeps its size and modification time.
        self._write(target, FileRecord.of(downloaded, sha256))

    def is_recorded(self, target: Path) -> bool:
        """Whether the sha256 of `target` is known; it is not for a file that was copied in by hand."""
        return self._key(target) in self._read()

    def verify(self, target: Path) -> None:
        """Raise CheckpointError if `target` is not what was recorded; an unrecorded file is recorded."""
        recorded = self._read().get(self._key(target))
        if recorded is not None and recorded == FileRecord.of(target, recorded.sha256):
            return
        sha256 = sha256_of(target)
        if recorded is not None and recorded.sha256 != sha256:
            raise CheckpointError(
                f"{target} has sha256 {sha256}, but {recorded.sha256} was recorded when it was downloaded: it"
                " was changed or damaged; delete it so that it is downloaded again."
            )
        try:
            self._write(target, FileRecord.of(target, sha256))
        except OSError:
            # A shared cache may be read-only: the file is good, it is only hashed again next time.
            return

    def _key(self, target: Path) -> str:
        return target.relative_to(self.cache).as_posix()

    def _read(self) -> dict[str, FileRecord]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        try:
            return {key: FileRecord(**entry) for key, entry in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{self.path} is not a list of checksums ({error}); delete it, and the checksums of the"
                " cached files are taken anew."
            ) from error

    def _write(self, target: Path, record: FileRecord) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        # The lock makes reading, changing and writing one step among several processes.
        with FileLock(self.cache / "checksums.lock"):
            records = self._read() | {self._key(target): record}
            entries = {key: asdict(entry) for key, entry in sorted(records.items())}
            replace_file(self.path, f"{json.dumps(entries, indent=2)}\n".encode())


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
