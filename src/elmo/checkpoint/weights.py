"""The weights of a model: float32 arrays by name, which may be stored as float16 or int8.

A stored weight is converted on access, so opening a model costs nothing for weights that are not used. Each weight
is then checked for NaN, infinity and overflow.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.tensors import Array
from elmo.errors import CheckpointError
from elmo.kernels.int8 import quantize_rows

Float32: TypeAlias = npt.NDArray[np.float32]
Weights: TypeAlias = Mapping[str, Float32]
# Storage types of the weights; "compact" is float16 with the softmax in int8.
Storage: TypeAlias = Literal["float32", "float16", "compact"]
_LARGEST_WEIGHT = 1e6  # products of larger ones overflow; trained weights stay far below
_MAX_NAMES = 5
_SOFTMAX_WEIGHT = "softmax.weight"
_SCALE = ".scale"  # suffix of the name of the row scales of an int8 matrix
_FLOAT32, _FLOAT16, _INT8 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.int8)


class StoredWeights(Mapping[str, Float32]):
    """Weights in their storage types, converted to float32 on access.

    A converted weight is shared, and freed when it is no longer referenced.
    """

    def __init__(self, stored: Mapping[str, Array]) -> None:
        self.stored = dict(stored)  # in their storage types, including the scales of int8 matrices
        scales = {name + _SCALE for name, array in stored.items() if array.dtype == _INT8}
        self.shapes = {name: array.shape for name, array in stored.items() if name not in scales}
        self._converted: WeakValueDictionary[str, Float32] = WeakValueDictionary()
        faults = [f"{name} is {stored[name].dtype}" for name in self.shapes if not self._is_supported(name)]
        if faults:
            raise CheckpointError(
                f"The weights must be float32, float16, or int8 with one scale per row, but {list_some(faults)}; "
                "convert them, or save the model as it was before quantization."
            )

    def __getitem__(self, name: str) -> Float32:
        if name not in self.shapes:
            raise KeyError(name)
        weight = self._converted.get(name)
        if weight is None:
            weight = self._convert(name)
            check_finite({name: weight})
            self._converted[name] = weight
        return weight

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __contains__(self, name: object) -> bool:  # Mapping's own test would load the weight
        return name in self.shapes

    def __deepcopy__(self, memo: object) -> "StoredWeights":
        return self  # immutable

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredWeights, (self.stored,)

    @property
    def storage(self) -> Storage:
        """The storage type of the weights."""
        dtypes = {array.dtype for array in self.stored.values()}
        return "compact" if _INT8 in dtypes else "float16" if _FLOAT16 in dtypes else "float32"

    def _is_supported(self, name: str) -> bool:
        array = self.stored[name]
        if array.dtype == _INT8:
            scale = self.stored.get(name + _SCALE)
            return scale is not None and scale.shape == array.shape[:1] and scale.dtype in (_FLOAT16, _FLOAT32)
        return array.dtype in (_FLOAT16, _FLOAT32)

    def _convert(self, name: str) -> Float32:
        array = self.stored[name]
        if array.dtype == _FLOAT32:
            return array
        weight = array.astype(np.float32)
        if array.dtype == _INT8:
            scale = self.stored[name + _SCALE].astype(np.float32)
            weight *= scale.reshape(-1, *[1] * (array.ndim - 1))
        weight.flags.writeable = False
        return weight


def list_differences(shapes: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return a phrase for each weight that is missing, unknown or of the wrong shape."""
    faults = [f"{name} is missing" for name in expected if name not in shapes]
    faults += [f"{name} is not part of the model" for name in shapes if name not in expected]
    return faults + [
        f"{name} has shape {shapes[name]}, the configuration needs {shape}"
        for name, shape in expected.items()
        if shapes.get(name, shape) != shape
    ]


def check_finite(weights: Mapping[str, Array], subject: str = "The weights have") -> None:
    """Raise CheckpointError for weights that are NaN or infinite, or so large that vectors would overflow."""
    faults = []
    for name, weight in weights.items():
        if weight.size and weight.dtype.kind == "f":
            largest = float(max(weight.max(), -weight.min()))  # NaN if any weight is NaN
            if not largest <= _LARGEST_WEIGHT:
                faults.append(f"{name} ({largest:.3g})")
    if faults:
        raise CheckpointError(
            f"{subject} values that are not numbers or make vectors overflow: {list_some(faults)}; the file is damaged "
            "or its training had diverged, so use an earlier checkpoint or another copy."
        )


def shapes_of(weights: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight, without loading any."""
    return weights.shapes if isinstance(weights, StoredWeights) else {n: w.shape for n, w in weights.items()}


def content_hash(arrays: Mapping[str, Array], prefix: bytes = b"") -> str:
    """Return the SHA-256 of `prefix` and the names, shapes, types and bytes of arrays, as recorded in files.

    Checkpoint.fingerprint is a different hash, which covers everything that determines the layers.
    """
    digest = hashlib.sha256(prefix)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {describe_type(array)}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def describe_type(array: Array) -> str:
    """Return the shape and type of an array as text for a hash."""
    return f"{array.shape} torch.{array.dtype.name}"  # the first recorded hashes were computed from torch tensors


def convert_weights(weights: Weights, storage: Storage) -> dict[str, Array]:
    """Convert float32 weights to the arrays of a storage type."""
    if storage not in get_args(Storage):
        raise CheckpointError(f"storage is {storage!r}; weights are stored as one of {', '.join(get_args(Storage))}.")
    if storage == "float32":
        return dict(weights)
    if isinstance(weights, StoredWeights) and weights.storage == storage:
        return dict(weights.stored)  # rounding again could change the scales
    stored: dict[str, Array] = {}
    for name, weight in weights.items():
        if storage == "compact" and name == _SOFTMAX_WEIGHT:
            stored[name], stored[name + _SCALE] = quantize_rows(weight)
        else:
            with np.errstate(over="ignore"):
                stored[name] = weight.astype(np.float16)
            if not np.isfinite(stored[name]).all():
                raise CheckpointError(
                    f"{name} has values that float16 cannot hold (up to {np.abs(weight).max():.3g}, at most 65504 "
                    "can be stored); save the model in float32."
                )
    return stored


def list_some(phrases: list[str]) -> str:
    """Join the first few phrases for a message."""
    num_more = len(phrases) - _MAX_NAMES
    return "; ".join(phrases[:_MAX_NAMES]) + (f"; and {num_more} more" if num_more > 0 else "")
