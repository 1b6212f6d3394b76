"""Named arrays in a safetensors file, mapped into memory for reading.

Opening a file reads only its header; the operating system loads the data on first access.
"""

import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.location import open_file
from elmo.errors import CheckpointError

Array = npt.NDArray[Any]
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
_METADATA = "__metadata__"
_CAN_DELETE_MAPPED_FILES = os.name != "nt"


def read_tensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the read-only arrays of a file by name, and its metadata. Raises CheckpointError if it is damaged."""
    try:
        with open_file(path) as file:
            if not _CAN_DELETE_MAPPED_FILES and Path(tempfile.gettempdir()) in path.parents:
                return _parse(memoryview(file.read()))  # an unpacked archive, which is deleted after reading
            return _parse(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise CheckpointError(f"{path} is damaged or not a supported safetensors file: {error}.") from error


def _parse(content: memoryview) -> tuple[dict[str, Array], dict[str, str]]:
    data_start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:data_start]))
    metadata = dict(header.pop(_METADATA, None) or {})
    end, arrays = data_start, {}  # the end of the last array
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if data_start + entry["data_offsets"][0] != end:
            raise ValueError(f"{name} does not begin where the tensor before it ends")
        array = np.ndarray(entry["shape"], _DTYPES[entry["dtype"]], content, end)
        end += array.nbytes
        arrays[name] = array if array.flags.aligned else array.copy()
    if end != len(content):
        raise ValueError(f"it has {len(content):,} bytes, but its tensors end at byte {end:,}")
    return arrays, metadata


def write_tensors(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write named arrays and metadata to a safetensors file."""
    from safetensors.numpy import save  # imported here because it loads slowly

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, dict(metadata))
    path.write_bytes(content)
