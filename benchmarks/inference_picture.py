"""Plot the results of inference.py: bars of words per second, two panels per model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from machine import Machine

from elmo.analysis.style import COLORS, drawing

if TYPE_CHECKING:
    from inference import Results

OURS_COLOR, BEFORE_COLOR, PEER_COLOR = COLORS[0], COLORS[5], "#B6BEC6"
# The title of each mode, and the width of the axes relative to the longest bar, which leaves space for its label.
MODES = {"single": ("one sentence at a time (milliseconds per sentence)", 1.45), "bulk": ("in bulk", 1.2)}
PEERS = {
    "allennlp": "AllenNLP 2.10",
    "simple_elmo": "simple_elmo, TensorFlow",
    "minilm-l6 torch": "MiniLM-L6, torch",
    "minilm-l6 onnx": "MiniLM-L6, onnxruntime",
    "bert-base torch": "BERT-base, torch",
}


def draw(path: Path, results: dict[str, Results], titles: dict[str, str], machine: Machine, before: str | None) -> None:
    """Plot the results of each size, the fastest in bulk on top; `before` is the other commit of ours."""
    description = machine.describe()
    heights = [1.4 + 0.28 * len(measured.programs) for measured in results.values()]
    flags = " ".join(description["flags"]) or "no known flags"
    with drawing(path, (12, 0.9 + sum(heights))) as figure:
        figure.suptitle(
            "Words per second on a CPU: contextual vectors for the same sentences, tokenization included\n"
            f"{description['cpu']} ({flags}), threads per program: {description['num_threads']}"
        )
        subfigures = figure.subfigures(len(results), 1, squeeze=False, height_ratios=heights)[:, 0]
        for subfigure, (size, measured) in zip(subfigures, results.items(), strict=True):
            subfigure.suptitle(titles[size], fontsize=11)
            names = sorted(measured.programs, key=lambda name: measured.rate(name, "bulk"))
            panels = subfigure.subplots(1, 2, sharey=True)
            for axes, (mode, (title, room)) in zip(panels, MODES.items(), strict=True):
                rates = [measured.rate(name, mode) for name in names]
                labels = [f"{rate:,.0f}" for rate in rates]
                if mode == "single":
                    labels = [
                        f"{label} ({measured.milliseconds(name):,.1f} ms)"
                        for label, name in zip(labels, names, strict=True)
                    ]
                bars = axes.barh([_make_label(name, before) for name in names], rates, color=list(map(_color, names)))
                axes.bar_label(bars, labels, padding=4, fontsize=9)
                axes.set_xlim(0, room * max(rates))
                axes.margins(y=0.02)
                axes.spines[["top", "right"]].set_visible(False)
                axes.set_title(title, fontsize=10)
                axes.set_xlabel("words per second", fontsize=9)
                axes.xaxis.set_major_formatter("{x:,.0f}")
                axes.tick_params(axis="x", labelsize=8)
                axes.tick_params(axis="y", length=0)


def _make_label(name: str, before: str | None) -> str:
    """Return the label of a program: "elmo int8" becomes "modern-elmo, int8"."""
    if name in PEERS:
        return PEERS[name]
    program, _, precision = name.rpartition(" ")
    if program in PEERS:
        return f"{PEERS[program]} {precision}"
    return f"modern-elmo, {precision}" if program == "elmo" else f"modern-elmo at {before}, {precision}"


def _color(name: str) -> str:
    if name.startswith("elmo before "):
        return BEFORE_COLOR
    return OURS_COLOR if name.startswith("elmo ") else PEER_COLOR
