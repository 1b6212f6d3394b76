"""Quantize rows to int8 with one scale per row: for weights, softmaxes, static vectors and stored vectors."""

from typing import Any

import numpy as np
import numpy.typing as npt

_LEVELS = 127  # on each side of zero
_SMALLEST_PEAK = np.float32(1e-30)  # used for a row of zeros, so that no scale is zero


def quantize_rows(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return rows (..., d) in int8 and the scale of each row, its largest magnitude divided by 127.

    The scale of a row with NaN is NaN, and the scale of a row with infinity is infinite.
    """
    rows = np.asarray(rows, dtype=np.float32)
    scales = np.maximum(np.abs(rows).max(axis=-1, initial=0), _SMALLEST_PEAK) / np.float32(_LEVELS)
    with np.errstate(invalid="ignore"):  # NaN becomes an integer, but its scale is NaN
        return np.rint(rows / scales[..., None]).astype(np.int8), scales
