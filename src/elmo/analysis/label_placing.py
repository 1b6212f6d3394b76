"""Points and texts -> each text beside its point, where it covers no other text and as few points as can be."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmo.analysis.layer_choice import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DISTANCES = (12, 26, 45, 70, 100, 140)  # in points, 72 an inch
_NUM_DIRECTIONS = 12
_COST_OF_A_POINT = 30
_ROOM = 4  # pixels around a label
_FONT_SIZE = 8


class Box(NamedTuple):
    """A rectangle, in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: "Box") -> bool:
        """Tell whether two have a point in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def lies_in(self, other: "Box") -> bool:
        """Tell whether the other one holds it."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )


def place_labels(figure: "Figure", axes: "Axes", points: Array, labels: Sequence[tuple[Array, str]]) -> list[Box]:
    """Draw the labels that find room, the first ones first, and give where they are."""
    figure.draw_without_rendering()  # only then is it known where the axes are
    pixels = axes.transData.transform(points)
    frame = Box(*axes.get_window_extent().extents)
    taken: list[Box] = []
    for point, text in labels:
        width, height = _measure(axes, text)
        places = _find_places(axes.transData.transform(point), width, height, figure.dpi / 72)
        free = [
            (cost + _COST_OF_A_POINT * _count_inside(pixels, box), offset, box)
            for cost, offset, box in places
            if box.lies_in(frame) and not any(box.overlaps(other) for other in taken)
        ]
        if free:
            _, offset, box = min(free, key=lambda place: place[0])
            taken.append(box)
            _draw(axes, point, text, offset)
    return taken


def _find_places(
    at: Array, width: float, height: float, pixels_a_point: float
) -> Iterator[tuple[float, tuple[float, float], Box]]:
    """Give places around a point: how far, the offset in points of the label's near edge, and its box."""
    for distance in _DISTANCES:
        for number in range(_NUM_DIRECTIONS):
            angle = 2 * math.pi * number / _NUM_DIRECTIONS
            x, y = distance * math.cos(angle), distance * math.sin(angle)
            left, middle = float(at[0]) + x * pixels_a_point, float(at[1]) + y * pixels_a_point
            left -= 0 if x >= 0 else width
            box = Box(left - _ROOM, middle - height / 2 - _ROOM, left + width + _ROOM, middle + height / 2 + _ROOM)
            yield distance, (x, y), box


def _measure(axes: "Axes", text: str) -> tuple[float, float]:
    drawn = axes.text(0, 0, text, fontsize=_FONT_SIZE)
    box = drawn.get_window_extent()
    drawn.remove()
    return box.width, box.height


def _count_inside(pixels: Array, box: Box) -> int:
    inside = (pixels >= (box.left, box.bottom)) & (pixels <= (box.right, box.top))
    return int(np.all(inside, axis=1).sum())


def _draw(axes: "Axes", point: Array, text: str, offset: tuple[float, float]) -> None:
    axes.annotate(
        text, (float(point[0]), float(point[1])), xytext=offset, textcoords="offset points",
        ha="left" if offset[0] >= 0 else "right", va="center", fontsize=_FONT_SIZE,
        arrowprops={"arrowstyle": "-", "color": "#666666", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )  # fmt: skip
