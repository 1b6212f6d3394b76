"""Two sentences -> how alike each word of the one is to each word of the other, as numbers and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.analysis.drawing import check_output, drawing
from elmo.analysis.layer_choice import Array, LayerKey, choose_layer, embed_keys, name_layer, normalize
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.text.sentence_input import Sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MOST_WORDS = 60
_WORDS_WITH_NUMBERS = 16
_INCHES_A_WORD = 0.42


@dataclass(frozen=True)
class SimilarityMap:
    """Cosines (words of the first sentence, words of the second) by one layer."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    layer: LayerKey
    cosines: Array

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        cosines = np.round(self.cosines.astype(np.float64), 4).tolist()
        return {"first": self.first, "second": self.second, "layer": self.layer, "cosines": cosines}


def compare_sentences(
    model: Elmo, first: Sentence, second: Sentence, *, layers: Sequence[str | int] | None = None
) -> list[SimilarityMap]:
    """Compare every word of two sentences, by each of the layers; by default by meaning, else by the average."""
    wanted: Sequence[str | int | None] = layers or [None]
    keys = list(dict.fromkeys(choose_layer(layer, model, default="average") for layer in wanted))
    words = [
        [word.text for word in model.tokenize(each)] if isinstance(each, str) else list(each)
        for each in (first, second)
    ]
    for name, each in zip(("first", "second"), words, strict=True):
        if not 1 <= len(each) <= MOST_WORDS:
            raise InputError(f"The {name} sentence has {len(each)} words; 1 to {MOST_WORDS} can be compared.")
    one, other = embed_keys(model, words, keys)
    return [
        SimilarityMap(tuple(words[0]), tuple(words[1]), key, normalize(one[key]) @ normalize(other[key]).T)
        for key in keys
    ]


def draw_similarity_map(maps: Sequence[SimilarityMap], output: str | Path, *, font: Path | None = None) -> None:
    """Draw maps of the same sentences side by side."""
    check_output(output)
    first, second = maps[0].first, maps[0].second
    longest = max(map(_width, second))
    is_turned = longest > 5
    label_height = min(0.085 * longest, 2.5) if is_turned else 0.3
    width = max(3.0, _INCHES_A_WORD * len(second)) + 0.1 * max(map(_width, first))
    height = max(1.5, _INCHES_A_WORD * len(first)) + label_height + 0.6
    lowest = min(0.0, *(float(each.cosines.min()) for each in maps))
    size = (width * len(maps) + 0.9, height)
    with drawing(output, size, (*first, *second), font=font) as figure:
        axes = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
        image = None
        for each, part in zip(maps, axes, strict=True):
            image = _draw(part, each, lowest, is_turned=is_turned)
        assert image is not None
        axes[0].set_yticks(range(len(first)), first)
        figure.colorbar(image, ax=list(axes), label="cosine", pad=0.02, aspect=30)


def _draw(axes: "Axes", found: SimilarityMap, lowest: float, *, is_turned: bool) -> "AxesImage":
    image = axes.imshow(found.cosines, cmap="cividis", vmin=lowest, vmax=1, aspect="auto")
    axes.set_xticks(range(len(found.second)), found.second)
    if is_turned:
        for label in axes.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    axes.set_title(name_layer(found.layer))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if max(found.cosines.shape) <= _WORDS_WITH_NUMBERS:
        for row, column in np.ndindex(found.cosines.shape):
            value = float(found.cosines[row, column])
            is_bright = value - lowest > 0.55 * (1 - lowest)
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=7.5,
                color="black" if is_bright else "white",
            )  # fmt: skip
    return image


def _width(word: str) -> int:
    """Give the width of a word in letters; those of Chinese are twice as wide."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in word)
