"""How alike two vectors are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Comparison:
    """The cosine of two words (or phrases) by the chosen layers, and in each layer; layer 0 sees no sentence."""

    cosine: float
    cosine_by_layer: list[float]
    words_a: list[str]
    words_b: list[str]


def cosine(
    first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64] | np.float64:
    """Give the cosine along the last axis; 0 where a vector is zero."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    # A zero vector has a product of zero too, so the divisor then does not matter.
    quotient = (a * b).sum(axis=-1) / np.where(lengths > 0, lengths, 1.0)
    # Rounding may carry the cosine of equal vectors past 1.
    clipped: npt.NDArray[np.float64] | np.float64 = np.clip(quotient, -1.0, 1.0)
    return clipped
