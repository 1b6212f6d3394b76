"""Mixing weights of tasks -> a picture: one bar a mix, cut into what each layer counts."""

from collections.abc import Sequence
from pathlib import Path

from elmo.analysis.drawing import drawing
from elmo.analysis.task_mixes import MixingWeights
from elmo.errors import InputError


def draw_mixing_weights(mixes: Sequence[MixingWeights], output: str | Path, *, font: Path | None = None) -> None:
    """Draw the mixes, in the order given, from top to bottom."""
    if not mixes:
        raise InputError("There are no mixes to draw; name folders of trained tasks.")
    num_layers = max(len(mix.weights) for mix in mixes)
    has_places = len({mix.place for mix in mixes}) > 1
    names = [f"{mix.task} ({mix.place})" if has_places else mix.task for mix in mixes]
    longest = max(map(len, names))
    size = (5.2 + 0.085 * longest, 1.3 + 0.42 * len(mixes))
    with drawing(output, size, names, font=font) as figure:
        import matplotlib

        axes = figure.subplots()
        colours = matplotlib.colormaps["cividis"].resampled(max(2, num_layers))
        for row, mix in enumerate(mixes):
            left = 0.0
            for layer, share in enumerate(mix.weights):
                colour = colours(layer)
                label = f"layer {layer}" if row == 0 or len(mixes[0].weights) <= layer else None
                axes.barh(row, share, left=left, color=colour, edgecolor="white", height=0.7, label=label)
                if share >= 0.07:
                    ink = "white" if layer < num_layers / 2 else "black"
                    axes.text(
                        left + share / 2, row, f"{share:.2f}", ha="center", va="center", color=ink, fontsize=9
                    )
                left += share
            axes.text(1.015, row, f"γ {mix.gamma:.2f}", va="center", fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="share of each layer, $s_j$")
        axes.xaxis.label.set_parse_math(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        handles, labels = axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(
            unique.values(), unique.keys(), loc="outside upper center", ncols=min(num_layers, 4), frameon=False
        )
