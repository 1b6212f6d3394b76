"""What a search for neighbours finds."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from elmo.analysis.layer_choice import LayerKey
from elmo.analysis.occurrences import Occurrence

WordFilter: TypeAlias = Literal["any", "same", "other"]
WORD_FILTERS: tuple[WordFilter, ...] = ("any", "same", "other")


@dataclass(frozen=True)
class Neighbor:
    """An occurrence, and how alike it is to the word asked for."""

    occurrence: Occurrence
    cosine: float


@dataclass(frozen=True)
class StaticNeighbor:
    """A word without a sentence, and how alike it is."""

    word: str
    cosine: float


@dataclass(frozen=True)
class LayerNeighbors:
    """The nearest occurrences by one layer, best first."""

    layer: LayerKey
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True)
class Neighbors:
    """The answer of a search; `static` are the nearest words by layer 0, which sees no sentence."""

    query: Occurrence
    layers: tuple[LayerNeighbors, ...]
    static: tuple[StaticNeighbor, ...]
    num_occurrences: int  # that were searched

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "query": {"words": self.query.sentence.words, "start": self.query.start, "end": self.query.end},
            "num_occurrences": self.num_occurrences,
            "layers": [
                {
                    "layer": found.layer,
                    "neighbors": [
                        {"cosine": round(each.cosine, 4), **each.occurrence.to_dict()} for each in found.neighbors
                    ],
                }
                for found in self.layers
            ],
            "static": [{"cosine": round(each.cosine, 4), "word": each.word} for each in self.static],
        }
