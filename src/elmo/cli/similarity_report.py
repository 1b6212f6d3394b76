"""Cosines of marked words -> what `elmo similarity` prints: one line, a table, or JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

# By the numbers of two sentences: one value, or one for each layer.
Cosines: TypeAlias = Mapping[tuple[int, int], Sequence[float]]


@dataclass(frozen=True)
class PointedSentence:
    """A sentence's words, and the half-open range of those that are meant."""

    words: list[str]
    start: int
    end: int
    marked: str  # the text, with brackets around what is meant


def to_object(sentences: Sequence[PointedSentence], cosines: Cosines, *, by_layer: bool) -> dict[str, Any]:
    """Give the JSON object for programs; sentences are counted from 0."""
    return {
        "sentences": [{"words": each.words, "start": each.start, "end": each.end} for each in sentences],
        "pairs": [
            {"a": a, "b": b, **({"cosine_by_layer": values} if by_layer else {"cosine": values[0]})}
            for (a, b), values in cosines.items()
        ],
    }


def to_lines(sentences: Sequence[PointedSentence], cosines: Cosines, *, by_layer: bool) -> Iterator[str]:
    """Give the lines for people; sentences are counted from 1."""
    marked = [" ".join(each.marked.split()) for each in sentences]
    if len(marked) == 2 and not by_layer:
        yield f"{cosines[0, 1][0]:.3f}  {marked[0]}  ~  {marked[1]}"
        return
    for number, text in enumerate(marked, start=1):
        yield f"{number:>5}  {text}"
    yield ""
    rows = _tabulate_layers(cosines) if by_layer else _tabulate_pairs(cosines, len(marked))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _tabulate_layers(cosines: Cosines) -> list[list[str]]:
    """One row a pair, one column a layer."""
    num_layers = len(next(iter(cosines.values())))
    rows = [["", *(f"layer {number}" for number in range(num_layers))]]
    for (a, b), values in cosines.items():
        rows.append([f"{a + 1} ~ {b + 1}", *(f"{value:.3f}" for value in values)])
    return rows


def _tabulate_pairs(cosines: Cosines, num_sentences: int) -> list[list[str]]:
    """One row and one column a sentence."""
    numbers = range(num_sentences)
    rows = [[" " * 5, *(str(number + 1) for number in numbers)]]
    for a in numbers:
        values = [1.0 if a == b else cosines[min(a, b), max(a, b)][0] for b in numbers]
        rows.append([str(a + 1), *(f"{value:.3f}" for value in values)])
    return rows
