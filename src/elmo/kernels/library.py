"""Find the compiled library, choose its variant for this processor, and declare its functions for ctypes.

ELMO_KERNELS: "auto" (the default), "off" for plain torch, or one variant by name. ctypes releases the
interpreter's lock during every call, and the library starts no threads and keeps no state.
"""

import ctypes
import functools
import logging
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.errors import ConfigError

logger = logging.getLogger(__name__)

VARIABLE = "ELMO_KERNELS"
VARIANTS = ("avx512vnni", "avx512", "avx2", "portable")  # best first; a processor runs those after its best, too
_ABI = 2  # as in csrc/kernels.h
_PATH = Path(__file__).parent / f"_native.{'dll' if sys.platform == 'win32' else 'so'}"

_pointer, _int, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES: dict[str, tuple[type[Any] | None, list[type[Any]]]] = {
    "panel": (_int, []),
    "input_levels": (_int, []),
    "multiply_scratch": (_int, [_pointer, _int]),
    "multiply": (None, [_pointer, _pointer, _pointer, _int, _pointer, _pointer]),
    "read_scratch": (_int, [_pointer, _int, _pointer]),
    "read": (None, [_pointer, _int, _int, _pointer, _pointer]),
    "convolve": (None, [_pointer, _pointer, _pointer, _int, _pointer, _pointer]),
    "convolve_back": (None, [_pointer, _pointer, _int, _pointer, _pointer, _pointer]),
    "highway": (None, [_int, _int, _pointer, _pointer]),
    "train_forward": (None, [_int, _int, _int, *[_pointer] * 5, _float, *[_pointer] * 4]),
    "train_backward": (None, [_int, _int, _int, *[_pointer] * 6, _float, *[_pointer] * 3]),
}


class MatrixStruct(ctypes.Structure):
    """elmo_matrix of csrc/kernels.h."""

    _fields_ = (
        ("num_inputs", _int),
        ("num_outputs", _int),
        ("num_groups", _int),
        ("float32", _pointer),
        ("float16", _pointer),
        ("int8", _pointer),
        ("scales", _pointer),
        ("sums", _pointer),
    )


class LstmStruct(ctypes.Structure):
    """elmo_lstm of csrc/kernels.h."""

    _fields_ = (
        ("from_inputs", MatrixStruct),
        ("from_state", MatrixStruct),
        ("projection", MatrixStruct),
        ("bias", _pointer),
        ("cell_clip", _float),
        ("projection_clip", _float),
    )


class ReadingStruct(ctypes.Structure):
    """elmo_reading of csrc/kernels.h."""

    _fields_ = (
        ("num_steps", _int),
        ("counts", _pointer),
        ("num_rows", _int),
        ("words", _pointer),
        ("num_words", _int),
        ("sources", _pointer),
        ("targets", _pointer),
        ("num_state_rows", _int),
        ("has_state", _int),
        ("hidden", _pointer),
        ("cell", _pointer),
        ("num_vectors", _int),
        ("weights", _pointer),
        ("result", _pointer),
        ("result_stride", _int),
    )


class CharTableStruct(ctypes.Structure):
    """elmo_char_table of csrc/kernels.h."""

    _fields_ = (
        ("num_features", _int),
        ("num_filters", _int),
        ("num_characters", _int),
        ("widths", _pointer),
        ("channels", _pointer),
        ("table", _pointer),
        ("row_size", _int),
        ("bias", _pointer),
    )


class Library:
    """The functions of one variant."""

    def __init__(self, opened: ctypes.CDLL, variant: str) -> None:
        self.variant = variant
        self._scratch = threading.local()
        functions: dict[str, Any] = {}
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(opened, f"elmo_{name}_{variant}")
            function.restype, function.argtypes = result, arguments
            functions[name] = function
        self.multiply, self.multiply_scratch = functions["multiply"], functions["multiply_scratch"]
        self.read, self.read_scratch = functions["read"], functions["read_scratch"]
        self.convolve, self.convolve_back = functions["convolve"], functions["convolve_back"]
        self.highway = functions["highway"]
        self.train_forward, self.train_backward = functions["train_forward"], functions["train_backward"]
        self.panel: int = functions["panel"]()
        self.input_levels: int = functions["input_levels"]()

    @property
    def has_fast_bytes(self) -> bool:
        """Whether this variant multiplies 8 bits faster than float32."""
        return self.variant != "portable"

    def scratch(self, num_bytes: int) -> int:
        """Return the address of memory that this thread may use until its next call."""
        held: Tensor | None = getattr(self._scratch, "held", None)
        if held is None or held.numel() < num_bytes:
            held = self._scratch.held = torch.empty(num_bytes + 64, dtype=torch.uint8)
        return (held.data_ptr() + 63) // 64 * 64


@dataclass(frozen=True)
class Kernels:
    """The library to use, or why there is none."""

    library: Library | None
    reason: str


def find_kernels() -> Kernels:
    """Return the library for this processor as ELMO_KERNELS asks for it."""
    return _open(os.environ.get(VARIABLE) or "auto")


def find_library() -> Library | None:
    """Return the library for this processor, or None where everything runs on torch."""
    return find_kernels().library


@functools.cache
def _open(wish: str) -> Kernels:
    if wish not in ("auto", "off", *VARIANTS):
        raise ConfigError(f"{VARIABLE} is {wish!r}; choose auto, off or one of {', '.join(VARIANTS)}.")
    if wish == "off":
        return Kernels(None, f"{VARIABLE} is off")
    try:
        opened = ctypes.CDLL(str(_PATH))
        if opened.elmo_abi() != _ABI:
            raise OSError("it was built from other sources; install the package again")
        opened.elmo_best_variant.restype = ctypes.c_char_p
        best = opened.elmo_best_variant().decode()
    except (OSError, AttributeError) as error:
        missing = "they were not built, because the installation found no C compiler"
        reason = f"{error}" if _PATH.exists() else missing
        logger.warning("The compiled kernels are not available (%s); torch is used, which is slower.", reason)
        return Kernels(None, reason)
    variant = best if wish == "auto" else wish
    if VARIANTS.index(variant) < VARIANTS.index(best):
        raise ConfigError(f"{VARIABLE} is {wish!r}, but this processor runs {best} at best; choose that or auto.")
    return Kernels(Library(opened, variant), variant)
