"""A part of a corpus: some of its files, or some of their sentences."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath

from elmo.analysis.occurrences import CorpusSentence
from elmo.errors import InputError


@dataclass(frozen=True)
class Part:
    """Files whose name, with or without its folder, fits a pattern; sentences `first` to `last`, half-open."""

    patterns: tuple[str, ...] = ()  # none: all files
    first: int = 0
    last: int | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or (self.last is not None and self.last <= self.first):
            raise InputError(
                f"The sentences {self.first}:{'' if self.last is None else self.last} are none; give FIRST:LAST "
                "with 0 <= FIRST < LAST."
            )

    @property
    def is_whole(self) -> bool:
        """Whether it leaves nothing out."""
        return not self.patterns and self.first == 0 and self.last is None

    def has_source(self, name: str) -> bool:
        """Tell whether a file belongs to it."""
        names = (name, PurePath(name).name)
        return not self.patterns or any(fnmatchcase(each, pattern) for each in names for pattern in self.patterns)

    def __contains__(self, sentence: CorpusSentence) -> bool:
        is_inside = sentence.number >= self.first and (self.last is None or sentence.number < self.last)
        return is_inside and self.has_source(sentence.source)


def read_range(given: str | None) -> tuple[int, int | None]:
    """Give what FIRST:LAST means; either may be left out."""
    if given is None:
        return 0, None
    first, colon, last = given.partition(":")
    try:
        if colon:
            return int(first or 0), int(last) if last else None
    except ValueError:
        pass
    raise InputError(f"The sentences are {given!r}; give FIRST:LAST, as in 0:1000.")
