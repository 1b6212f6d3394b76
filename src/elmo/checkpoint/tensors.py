"""Named arrays in a safetensors file, mapped into memory for reading.

Opening a file reads its header only; the numbers are loaded by the system when they are used.
"""

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.location import Location, check_file, read_file
from elmo.errors import CheckpointError

Array = npt.NDArray[Any]
MAX_HEADER_BYTES = 4 << 20  # a model of a thousand layers needs a quarter
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
_METADATA = "__metadata__"


def read_tensors(path: Location) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the read-only arrays of a file by name, and its metadata; CheckpointError for any damage."""
    check_file(path)
    try:
        if not isinstance(path, Path):
            return _parse(memoryview(read_file(path)))
        with path.open("rb") as file:
            return _parse(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a complete safetensors file: {error}.") from error


def _parse(content: memoryview) -> tuple[dict[str, Array], dict[str, str]]:
    header_bytes = int.from_bytes(content[:8], "little")
    if len(content) < 8 or header_bytes > min(MAX_HEADER_BYTES, len(content) - 8):
        raise ValueError(f"its header should have {header_bytes:,} bytes, but the file has {len(content):,}")
    start = 8 + header_bytes
    header = json.loads(bytes(content[8:start]))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    metadata = header.pop(_METADATA, None) or {}
    if not isinstance(metadata, dict):
        raise ValueError("its metadata is not a JSON object")
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        if not all(type(size) is int and size >= 0 for size in (*shape, begin, stop)):
            raise ValueError(f"{name} has a size that is not a whole number")
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize or start + stop > len(content):
            raise ValueError(f"{name} does not have the bytes that its shape {shape} needs")
        arrays[name] = _view(content[start + begin : start + stop], dtype, shape)
        end = stop
    if start + end != len(content):
        raise ValueError(f"it has {len(content) - start - end:,} bytes that belong to no tensor")
    return arrays, metadata


def _view(content: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if not content:
        return np.zeros(shape, dtype)
    array = np.frombuffer(content, dtype).reshape(shape)
    return array if array.flags.aligned else array.copy()


def write_tensors(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write arrays by name."""
    from safetensors.numpy import save  # here, because it loads slowly

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, dict(metadata))
    path.write_bytes(content)
