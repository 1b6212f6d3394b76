"""Numbers that were stored -> pictures: training runs, comparisons, learned mixes.

Pictures of words are drawn beside the numbers they show: similarity.py and word_map.py; style.py is how they look.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.style import COLORS, INK, MARKERS, check_output, drawing, ink_on, shades
from elmo.checkpoint.location import read_json
from elmo.errors import CheckpointError, InputError
from elmo.pretrain.launch import read_run_file
from elmo.pretrain.metrics import read_metrics
from elmo.tasks.comparison import RESULTS_FILE, Row
from elmo.tasks.task import read_task

_MIX = re.compile(r"encoder\.elmo\.(?:mixes\.)?(\d+)\.weights")
_DIRECTIONS = ("left_to_right", "right_to_left")


def draw_training_curves(run: str | Path, output: str | Path) -> None:
    """Draw a training run: losses, perplexity in validation, and similarity to a teacher, over the words read."""
    run, output = Path(run), check_output(output)
    read_run_file(run)
    lines = list(read_metrics(run))
    trained, validated = ([line for line in lines if line["kind"] == kind] for kind in ("train", "validation"))
    if not trained:
        raise InputError(f"The run in {run} has no metrics yet; wait for its first updates.")
    updates, words = ([line[name] for line in trained] for name in ("update", "num_words"))
    scale, unit = (1e6, "million") if words[-1] >= 1e6 else (1e3, "thousand")
    softmax = "sampled softmax" if any("sampled" in name for name in trained[0]) else "full softmax"
    # Of a curve its label, lines of the metrics, and the name of the value.
    loss = [(name.replace("_", " "), trained, f"{name}_{softmax.split()[0]}_loss") for name in _DIRECTIONS]
    perplexity = [(name.replace("_", " "), validated, f"{name}_perplexity") for name in _DIRECTIONS]
    cosine = [("training", trained, "teacher_cosine"), ("validation", validated, "teacher_cosine")]
    panels = [
        (f"Training loss, {softmax}", "nats per word", loss),
        ("Validation perplexity, full softmax", "perplexity", [*perplexity, ("mean of both", validated, "perplexity")]),
        ("Similarity to the teacher's vectors", "mean cosine", cosine),
    ]
    panels = [panel for panel in panels if any(_read_curve(lines, name)[0] for _, lines, name in panel[2])]
    title = f"Training run {run.resolve().name}"
    with drawing(output, (8, 0.9 + 2.5 * len(panels)), [title]) as figure:
        all_axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (heading, value_unit, curves) in zip(all_axes, panels, strict=True):
            for (label, lines, name), color, marker in zip(curves, COLORS, MARKERS, strict=False):
                at_updates, values = _read_curve(lines, name)
                positions = np.interp(at_updates, updates, words) / scale
                width = 1 if lines is validated else max(1, len(values) // 60)
                if width > 1:  # each update is noisy, so their moving average is drawn over them
                    axes.plot(positions, values, color=color, linewidth=0.6, alpha=0.3)
                    padded = np.pad(values, (width // 2, (width - 1) // 2), "edge")
                    values = np.convolve(padded, np.ones(width) / width, "valid").tolist()
                axes.plot(positions, values, color=color, label=label, marker=marker if lines is validated else "")
            axes.set(ylabel=value_unit, title=heading)
            axes.grid()
            axes.legend(loc="best")
        all_axes[-1].set_xlabel(f"{unit} words read")
        figure.suptitle(title)


def _read_curve(lines: Sequence[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Return the updates with a value of that name, and the values."""
    chosen = [line for line in lines if line.get(name) is not None]
    return [line["update"] for line in chosen], [line[name] for line in chosen]


def read_comparison(folder: str | Path) -> list[Row]:
    """Read the rows that `elmo task train --compare` wrote."""
    path = Path(folder) / RESULTS_FILE
    if not path.is_file():
        raise InputError(f"{folder} is not a comparison: it has no {RESULTS_FILE}; make one with --compare.")
    try:
        return [Row(**row) for row in read_json(path)["rows"]]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; run the comparison again.") from error


def draw_learning_curves(folder: str | Path, output: str | Path, *, title: str | None = None) -> None:
    """Draw the score of each variant of a comparison over the share of the training data."""
    path, rows = check_output(output), read_comparison(folder)
    if len({row.fraction for row in rows}) < 2:
        raise InputError(
            f"{folder} has one share of the training data, which makes no curve; compare with --fractions 0.01,0.1,1."
        )
    title = title or Path(folder).resolve().name
    variants = list(dict.fromkeys(row.variant for row in rows))
    with drawing(path, (6.5, 4.2), [title, *variants]) as figure:
        axes = figure.subplots()
        for number, variant in enumerate(variants):
            own = sorted((row for row in rows if row.variant == variant), key=lambda row: row.fraction)
            axes.errorbar(
                [100 * row.fraction for row in own], [row.mean for row in own],
                yerr=[row.spread or 0 for row in own], capsize=3, label=variant,
                color=INK if variant == "baseline" else COLORS[number % len(COLORS)],
                marker=MARKERS[number % len(MARKERS)],
            )  # fmt: skip
        shares = sorted({100 * row.fraction for row in rows})
        axes.set(xscale="log", xlabel="training data (%)", ylabel=rows[0].metric, title=title)
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.minorticks_off()
        axes.grid()
        axes.legend()


@dataclass(frozen=True)
class MixingWeights:
    """The mix that a task learned in one place; `weights` sum to 1."""

    task: str
    place: str  # input: beside the words; output: beside the states of the task's network
    weights: tuple[float, ...]
    gamma: float


def mixing_weights(task_folder: str | Path) -> tuple[MixingWeights, ...]:
    """Read s_j and γ of a task that `elmo task train` wrote, or of each variant of its --compare."""
    folder = Path(task_folder)
    mixes = _read_compared_mixes(folder) if (folder / RESULTS_FILE).is_file() else _read_task_mixes(folder)
    mixes = tuple(mix for mix in mixes if len(mix.weights) > 1)
    if not mixes:
        raise InputError(f"{folder} has learned no mix of layers; train it with --layers learned.")
    return mixes


def _read_task_mixes(folder: Path) -> tuple[MixingWeights, ...]:
    description, _, weights = read_task(folder)
    places = _name_places(description.settings.elmo.where)
    mixes = []
    for name in sorted(weights):
        if match := _MIX.fullmatch(name):
            gamma = weights[name.removesuffix("weights") + "gamma"].item()
            shares = tuple(weights[name].softmax(dim=0).tolist())
            mixes.append(MixingWeights(folder.name, places[int(match[1])], shares, gamma))
    return tuple(mixes)


def _read_compared_mixes(folder: Path) -> tuple[MixingWeights, ...]:
    rows = read_json(folder / RESULTS_FILE)["rows"]
    largest = max((row["fraction"] for row in rows), default=1.0)
    mixes = []
    for row in rows:
        where = "both" if len(row["mixes"]) == 2 else "output" if row["variant"] == "output" else "input"
        if row["fraction"] == largest:
            for place, mix in zip(_name_places(where), row["mixes"], strict=False):
                name = f"{folder.name}, {row['variant']}"
                mixes.append(MixingWeights(name, place, tuple(mix["weights"]), mix["gamma"]))
    return tuple(mixes)


def _name_places(where: str) -> Sequence[str]:
    return {"both": ("input", "output"), "output": ("output",)}.get(where, ("input",))


def draw_mixing_weights(mixes: Sequence[MixingWeights], output: str | Path) -> None:
    """Draw one bar per mix, divided into the shares of the layers, in the order given from top to bottom."""
    if not mixes:
        raise InputError("There are no mixes to draw; name folders of trained tasks.")
    num_layers = max(len(mix.weights) for mix in mixes)
    has_places = len({mix.place for mix in mixes}) > 1
    names = [f"{mix.task} ({mix.place})" if has_places else mix.task for mix in mixes]
    size = (5.6 + 0.085 * max(map(len, names)), 1.4 + 0.42 * len(mixes))
    with drawing(output, size, names) as figure:
        axes = figure.subplots()
        colors = shades()(np.linspace(0.25, 0.9, num_layers))
        for layer in range(num_layers):
            rows = [row for row, mix in enumerate(mixes) if layer < len(mix.weights)]
            shares = [mixes[row].weights[layer] for row in rows]
            lefts = [sum(mixes[row].weights[:layer]) for row in rows]
            color, label = colors[layer], f"layer {layer}"
            bars = axes.barh(rows, shares, 0.7, lefts, color=color, edgecolor="white", label=label)
            texts = [f"{share:.2f}" if share >= 0.07 else "" for share in shares]
            axes.bar_label(bars, texts, label_type="center", color=ink_on(color), fontsize=9)
        for row, mix in enumerate(mixes):
            axes.text(1.015, row, f"γ {mix.gamma:.2f}", va="center", fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="share of each layer, $s_j$")
        axes.xaxis.label.set_parse_math(True)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=min(num_layers, 4))
