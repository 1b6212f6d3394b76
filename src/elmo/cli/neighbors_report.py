"""Neighbours -> the lines that `elmo neighbors` prints: a block a layer, the words without sentences beside it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from elmo.cli.text_width import fit, pad

if TYPE_CHECKING:
    from elmo.analysis.neighbor_results import LayerNeighbors, Neighbors

CONTEXT_WORDS = 8
CONTEXT_COLUMNS = 84


def to_lines(found: "Neighbors", words: str) -> Iterator[str]:
    """Give the lines for people."""
    yield f"{found.query.mark()}"
    yield f"Searched {found.num_occurrences:,} occurrences."
    for layer in found.layers:
        yield ""
        yield from _tabulate(layer, found, words)


def _tabulate(layer: "LayerNeighbors", found: "Neighbors", words: str) -> Iterator[str]:
    from elmo.analysis.layer_choice import name_layer

    name = name_layer(layer.layer)
    contexts = [
        f"{each.cosine:.3f}  {fit(each.occurrence.mark(CONTEXT_WORDS), CONTEXT_COLUMNS)}"
        for each in layer.neighbors
    ]
    if not contexts:
        contexts = [_explain_nothing(found, words)]
    static = [f"{each.cosine:.3f}  {each.word}" for each in found.static]
    yield f"{pad(name, CONTEXT_COLUMNS + 7)}  layer 0, no sentence"
    for number in range(max(len(contexts), len(static))):
        left = contexts[number] if number < len(contexts) else ""
        right = static[number] if number < len(static) else ""
        yield f"{pad(left, CONTEXT_COLUMNS + 7)}  {right}".rstrip()


def _explain_nothing(found: "Neighbors", words: str) -> str:
    if words == "same":
        return f"       {found.query.word!r} does not occur there, but for the sentence asked with."
    return "       There is nothing but the sentence asked with."
