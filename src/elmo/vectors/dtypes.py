"""Vectors of float32 -> as they are kept: float32, float16, or int8 with a scale for each vector; and back."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from elmo.vectors.settings import DType

Array = npt.NDArray[Any]
_LARGEST_INT8 = 127
_LARGEST_FLOAT16 = float(np.finfo(np.float16).max)


def shrink(vectors: npt.NDArray[np.float32], dtype: DType) -> tuple[Array, Array | None]:
    """Give the numbers to keep and, for int8, the scale that each vector is to be multiplied by."""
    if dtype == "float32":
        return np.ascontiguousarray(vectors, dtype=np.float32), None
    if dtype == "float16":
        return np.clip(vectors, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16), None
    largest = np.abs(vectors).max(axis=-1, initial=0.0)
    scales = (largest / _LARGEST_INT8).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[..., None]
    return np.rint(vectors / divisors).clip(-_LARGEST_INT8, _LARGEST_INT8).astype(np.int8), scales


def restore(kept: Array, scales: Array | None) -> Array:
    """Give the vectors: floats as they were kept, int8 as float32."""
    return kept if scales is None else cast(Array, kept.astype(np.float32) * scales[..., None])
