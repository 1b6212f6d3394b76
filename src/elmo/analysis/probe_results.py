"""What a probe measured: a score of each layer, of their average and of their learned mix."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

SpreadOf: TypeAlias = Literal["seeds", "resampling"]
AVERAGE, MIX, MEANING, ENCODE = "average", "learned mix", "meaning", "encode"


@dataclass(frozen=True)
class Score:
    """A score in percent. Its spread is a standard deviation: over seeds, or over redrawn test examples."""

    mean: float
    spread: float | None  # None: nothing was repeated
    spread_of: SpreadOf = "seeds"

    @classmethod
    def of_seeds(cls, values: Sequence[float]) -> "Score":
        """Gather the scores of several seeds."""
        return cls(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class ProbeRow:
    """One kind of vectors, or a baseline; the scores of each thing that was measured."""

    name: str
    scores: dict[str, Score]


@dataclass(frozen=True)
class ProbeResult:
    """The table, and on how much it rests."""

    kind: str
    metric: str
    rows: tuple[ProbeRow, ...]
    mix_weights: tuple[float, ...] | None  # s_j of the learned mix, the mean over seeds
    counts: dict[str, int]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "kind": self.kind,
            "metric": self.metric,
            "rows": [
                {"name": row.name, "scores": {name: asdict(score) for name, score in row.scores.items()}}
                for row in self.rows
            ],
            "mix_weights": self.mix_weights,
            "counts": self.counts,
            "notes": list(self.notes),
        }


def name_rows(num_layers: int) -> list[str]:
    """Give the names of the vectors that every probe compares, in order."""
    return [*(f"layer {number}" for number in range(num_layers)), AVERAGE, MIX]
