"""How alike two vectors are."""

import numpy as np
import numpy.typing as npt


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
