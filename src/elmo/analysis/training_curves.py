"""The metrics of a training run -> a picture: losses, perplexity in validation, nearness to a teacher."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.analysis.drawing import check_output, drawing, require_matplotlib
from elmo.errors import InputError
from elmo.pretrain.launch import read_run_file
from elmo.pretrain.metrics import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue and orange of the Okabe-Ito palette: told apart by colour-blind readers too.
COLOURS = {"left_to_right": "#0072B2", "right_to_left": "#D55E00", "mean": "#000000"}
LABELS = {"left_to_right": "left to right", "right_to_left": "right to left", "mean": "mean of both"}


def draw_training_curves(run: str | Path, output: str | Path) -> None:
    """Draw a run's curves to a PNG or SVG file."""
    require_matplotlib()
    run, output = Path(run), check_output(output)
    read_run_file(run)
    lines = list(read_metrics(run))
    if not lines:
        raise InputError(f"The run in {run} has no metrics yet; wait for its first updates.")
    trained = [line for line in lines if line["kind"] == "train"]
    validated = [line for line in lines if line["kind"] == "validation"]
    taught = [line for line in lines if line.get("teacher_cosine") is not None]
    num_parts = 1 + bool(validated) + bool(taught)
    title = f"Training run {run.resolve().name}"
    with drawing(output, (6.5 if num_parts == 1 else 5.5 * num_parts, 4.2), [title]) as figure:
        axes = figure.subplots(1, num_parts, squeeze=False)[0]
        kind = "sampled" if any("sampled" in name for name in trained[0]) else "full"
        _draw_losses(axes[0], trained, kind)
        if validated:
            _draw_perplexity(axes[1], validated)
        if taught:
            _draw_teacher(axes[-1], taught)
        figure.suptitle(title)


def _draw_losses(axes: "Axes", lines: Sequence[Mapping[str, Any]], kind: str) -> None:
    words = [line["num_words"] / 1e6 for line in lines]
    for name in ("left_to_right", "right_to_left"):
        losses = [line[f"{name}_{kind}_loss"] for line in lines]
        axes.plot(words, losses, color=COLOURS[name], label=LABELS[name], linewidth=1)
    softmax = "against sampled words" if kind == "sampled" else "over the whole vocabulary"
    axes.set(xlabel="million words read", ylabel="loss per word (nats)", title=f"Training loss, {softmax}")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_perplexity(axes: "Axes", lines: Sequence[Mapping[str, Any]]) -> None:
    updates = [line["update"] for line in lines]
    for name, key in (
        ("left_to_right", "left_to_right_perplexity"),
        ("right_to_left", "right_to_left_perplexity"),
        ("mean", "perplexity"),
    ):
        values = [line[key] for line in lines]
        axes.plot(updates, values, color=COLOURS[name], label=LABELS[name], marker="o", markersize=3)
    axes.set(xlabel="updates", ylabel="perplexity", title="Validation perplexity, full softmax")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_teacher(axes: "Axes", lines: Sequence[Mapping[str, Any]]) -> None:
    for kind, colour, marker in (("train", COLOURS["left_to_right"], ""), ("validation", COLOURS["mean"], "o")):
        own = [line for line in lines if line["kind"] == kind]
        updates, cosines = [line["update"] for line in own], [line["teacher_cosine"] for line in own]
        label = "in training" if kind == "train" else "in validation"
        axes.plot(updates, cosines, color=colour, marker=marker, label=label, linewidth=1, markersize=3)
    axes.set(xlabel="updates", ylabel="mean cosine", title="Nearness to the teacher's vectors")
    axes.grid(alpha=0.3)
    axes.legend()
