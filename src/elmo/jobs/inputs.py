"""Names and patterns -> the files of a job and what tells them from others; standard input is copied first."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from elmo.corpus.input_files import STDIN, Kind, Source, find_sources, open_stdin
from elmo.errors import InputError
from elmo.jobs.checksums import hash_ends

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class JobInput:
    """A file and what it was when the job began."""

    source: Source
    num_bytes: int
    modified_nanoseconds: int
    sha256_of_ends: str

    def check_unchanged(self) -> None:
        """Raise InputError if somebody wrote to the file since."""
        stat = self.source.path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (self.num_bytes, self.modified_nanoseconds):
            raise InputError(f"{self.source.name} was changed while it was read; run the same command again.")

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of a manifest."""
        kind = ".".join(filter(None, (self.source.kind, self.source.compression)))
        return {
            "name": self.source.name,
            "format": kind,
            "num_bytes": self.num_bytes,
            "sha256_of_ends": self.sha256_of_ends,
        }


def find_inputs(names: Sequence[str], stdin_copy: Path, *, kind: Kind | None = None) -> list[Source]:
    """Give the files; `kind` is what all of them are, by default what their endings say, or plain text."""
    if kind is None:
        return find_sources(names, stdin_copy, kinds=KINDS, other_kind="txt")
    return find_sources(names, stdin_copy, kinds=(kind,), other_kind=kind, stdin_kind=kind)


def open_inputs(sources: Sequence[Source]) -> list[JobInput]:
    """Copy standard input to where it is to be found, and look at all files."""
    inputs = []
    for source in sources:
        if source.name == STDIN:
            with source.path.open("wb") as copy:
                shutil.copyfileobj(open_stdin(), copy)
        elif not source.path.is_file():
            raise InputError(f"{source.name} is a pipe or a device; give its content on standard input (-).")
        stat = source.path.stat()
        inputs.append(JobInput(source, stat.st_size, stat.st_mtime_ns, hash_ends(source.path)))
    return inputs
