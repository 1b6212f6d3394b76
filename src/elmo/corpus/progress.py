"""How far the preparation of a corpus is: pieces of work done -> calls that say so."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Stage = Literal["hashing", "reading", "merging", "writing"]
# The share of the time each stage takes, as measured on 78 million words.
_SHARES: dict[Stage, float] = {"hashing": 0.005, "reading": 0.95, "merging": 0.035, "writing": 0.01}


@dataclass(frozen=True)
class PrepareProgress:
    """The state of one run; what an earlier run had finished counts as nothing to do."""

    stage: Stage
    num_words: int  # tokenized in this run
    fraction: float  # of this run's work, 0 to 1


ProgressCallback: TypeAlias = Callable[[PrepareProgress], None]


class Meter:
    """Adds up what is done, stage by stage; workers may report from several threads."""

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback = callback
        self._lock = threading.Lock()
        self._stage: Stage = "hashing"
        self._before = 0.0
        self._total = self._done = self._num_words = 0

    def begin(self, stage: Stage, total: int) -> None:
        """Enter a stage with `total` units of work."""
        with self._lock:
            self._stage, self._total, self._done = stage, total, 0
            stages = list(_SHARES)
            self._before = sum(_SHARES[each] for each in stages[: stages.index(stage)])
            self._tell()

    def advance(self, num_words: int, units: int) -> None:
        """Say how much was done since the last call."""
        with self._lock:
            self._num_words += num_words
            self._done += units
            self._tell()

    def _tell(self) -> None:
        share = min(1.0, self._done / self._total) if self._total else 0.0
        fraction = self._before + _SHARES[self._stage] * share
        self._callback(PrepareProgress(self._stage, self._num_words, min(1.0, fraction)))
