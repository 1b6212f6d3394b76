"""Plot the losses and the validation perplexity of a training run, which are in its metrics.jsonl.

python examples/training_curves.py RUN curves.png
"""

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def read_metrics(run: str, kind: str) -> list[dict[str, Any]]:
    """Return the metrics of a kind: "train", a line every few updates, or "validation"."""
    lines = (Path(run) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [metrics for metrics in map(json.loads, lines) if metrics["kind"] == kind]


def plot_curves(run: str, output: str) -> None:
    """Write a picture with one curve per direction of the language model."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    for axes, kind, ending in zip(panels, ("train", "validation"), ("_loss", "_perplexity"), strict=True):
        metrics = read_metrics(run, kind)
        for name in sorted({name for line in metrics for name in line if name.endswith(ending)}):
            axes.plot([line["update"] for line in metrics], [line[name] for line in metrics], label=name)
        axes.set(title=kind, xlabel="update")
        axes.legend()
        axes.grid()
    figure.savefig(output)


if __name__ == "__main__":
    plot_curves(*sys.argv[1:])
