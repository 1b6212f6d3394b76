"""Named arrays in a safetensors file, mapped into memory for reading.

Opening a file reads only its header; the operating system loads the data on first access.
"""

import json
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.location import check_file, unreadable
from elmo.errors import CheckpointError

Array = npt.NDArray[Any]
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
_METADATA = "__metadata__"
_CAN_DELETE_MAPPED_FILES = os.name != "nt"


def read_tensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the read-only arrays of a file by name, and its metadata; CheckpointError if it is damaged."""
    try:
        check_file(path)
        with path.open("rb") as file:
            if not _CAN_DELETE_MAPPED_FILES and Path(tempfile.gettempdir()) in path.parents:
                return _parse(memoryview(file.read()))  # an unpacked archive, which is deleted after reading
            return _parse(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise CheckpointError(f"{path} is not a complete safetensors file: {error}.") from error


def _parse(content: memoryview) -> tuple[dict[str, Array], dict[str, str]]:
    start = 8 + int.from_bytes(content[:8], "little")
    if not 8 < start <= len(content):
        raise ValueError(f"its header should end at byte {start:,}, but the file has {len(content):,}")
    header = json.loads(bytes(content[8:start]))
    metadata = dict(header.pop(_METADATA, None) or {})
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize or start + stop > len(content):
            raise ValueError(f"{name} does not have the number of bytes of its shape {shape}")
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
    from safetensors.numpy import save  # imported here because it loads slowly

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, dict(metadata))
    path.write_bytes(content)
