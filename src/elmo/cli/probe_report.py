"""The result of a probe -> a table in Markdown: a row for each kind of vectors, a column for what was asked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo.analysis.probe_results import ProbeResult, Score


def to_lines(found: "ProbeResult") -> Iterator[str]:
    """Give the lines for people."""
    yield _tell_counts(found.counts)
    yield from found.notes
    yield ""
    names = list(found.rows[0].scores)
    # Many columns do not fit a page, so then each question has a row.
    if len(names) > 4:
        kinds = [row.name for row in found.rows]
        yield from _tabulate(found.metric, kinds, [
            (name, [row.scores[name] for row in found.rows]) for name in names
        ])  # fmt: skip
    else:
        heads = names if len(names) > 1 else [found.metric]
        yield from _tabulate("", heads, [(row.name, list(row.scores.values())) for row in found.rows])
    yield ""
    yield from _explain(found)


def _tabulate(corner: str, heads: list[str], rows: "list[tuple[str, list[Score]]]") -> Iterator[str]:
    cells = [[corner, *heads], *([name, *map(_tell, scores)] for name, scores in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        yield f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def _tell(score: "Score") -> str:
    if score.spread is None:
        return f"{score.mean:.2f}"
    return f"{score.mean:.2f} ± {score.spread:.2f}{'*' if score.spread_of == 'resampling' else ''}"


def _explain(found: "ProbeResult") -> Iterator[str]:
    spreads = [score for row in found.rows for score in row.scores.values() if score.spread is not None]
    if any(score.spread_of == "seeds" for score in spreads):
        yield f"± is the standard deviation over {found.counts['seeds']} seeds."
    if any(score.spread_of == "resampling" for score in spreads):
        yield "±* is the standard deviation when the test examples are redrawn; nothing in it depends on a seed."
    if found.mix_weights is not None:
        shares = ", ".join(f"layer {number} {share:.2f}" for number, share in enumerate(found.mix_weights))
        yield f"The learned mix: {shares}."


def _tell_counts(counts: dict[str, int]) -> str:
    parts = []
    for name, count in counts.items():
        if name.endswith("_in_data"):
            continue
        whole = counts.get(f"{name}_in_data", count)
        parts.append(f"{name.replace('_', ' ')} {count:,}" + (f" of {whole:,}" if whole != count else ""))
    return f"{'; '.join(parts)}."
