"""Find the compiled library, choose its variant for this processor, and declare its functions for ctypes.

ELMO_KERNELS: "auto" (the default), "off" for plain torch, or one variant by name. ctypes releases the
interpreter's lock during every call. The library keeps no state but one helper thread, see csrc/helper.c.
"""

import ctypes
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.errors import ConfigError

logger = logging.getLogger(__name__)

VARIABLE = "ELMO_KERNELS"
VARIANTS = ("avx512vnni", "avx512", "avx2", "portable")  # best first; a processor runs those after its best, too
_ABI = 3  # as in csrc/kernels.h
MAX_HIGHWAYS = 4  # ELMO_MAX_HIGHWAYS
_PATH = Path(__file__).parent / f"_native.{'dll' if sys.platform == 'win32' else 'so'}"

_pointer, _int, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES: dict[str, tuple[type[Any] | None, list[type[Any]]]] = {
    "panel": (_int, []),
    "input_levels": (_int, []),
    "multiply_scratch": (_int, [_pointer, _int]),
    "multiply": (None, [_pointer, _pointer, _pointer, _int, _pointer, _pointer]),
    "read": (_int, [_pointer, _int, _int, _pointer, _int]),
    "encode": (_int, [_pointer, _pointer, _int, _int, _pointer, _pointer, _int]),
    "convolve": (None, [_pointer, _pointer, _pointer, _int, _pointer, _pointer]),
    "convolve_back": (None, [_pointer, _pointer, _int, _pointer, _pointer, _pointer]),
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


class DirectionStruct(ctypes.Structure):
    """elmo_direction of csrc/kernels.h."""

    _fields_ = (
        ("layers", _pointer),
        ("num_layers", _int),
        ("residual", _int),
        ("reading", ReadingStruct),
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


class WordEncoderStruct(ctypes.Structure):
    """elmo_word_encoder of csrc/kernels.h."""

    _fields_ = (
        ("table", CharTableStruct),
        ("alphabet_size", _int),
        ("activation", _int),
        ("num_highways", _int),
        ("highways", MatrixStruct * MAX_HIGHWAYS),
        ("highway_biases", _pointer * MAX_HIGHWAYS),
        ("projection", MatrixStruct),
        ("projection_bias", _pointer),
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
        self.read, self.encode = functions["read"], functions["encode"]
        self.convolve, self.convolve_back = functions["convolve"], functions["convolve_back"]
        self.train_forward, self.train_backward = functions["train_forward"], functions["train_backward"]
        self.has_helper = bool(opened.elmo_has_helper())
        self.wake_helper = opened.elmo_wake_helper
        self.wake_helper.restype, self.wake_helper.argtypes = None, []
        self.panel: int = functions["panel"]()
        self.input_levels: int = functions["input_levels"]()

    @property
    def has_fast_bytes(self) -> bool:
        """Whether this variant multiplies 8 bits faster than float32."""
        return self.variant != "portable"

    def scratch(self, num_bytes: int) -> int:
        """Return the address of memory that this thread may use until its next call."""
        return self._find_scratch(num_bytes)[0]

    def run_with_scratch(self, function: Callable[..., int], *arguments: Any) -> int:
        """Call a function that ends with scratch memory and its size, and that asks for more if need be."""
        answer = function(*arguments, *self._find_scratch(0))
        return function(*arguments, *self._find_scratch(answer)) if answer > 0 else answer

    def _find_scratch(self, num_bytes: int) -> tuple[int, int]:
        """Return the address and the size of this thread's memory, at least as large as asked for."""
        found: tuple[int, int, Tensor] | None = getattr(self._scratch, "found", None)
        if found is None or found[1] < num_bytes:
            held = torch.empty(num_bytes + 64, dtype=torch.uint8)
            found = self._scratch.found = (held.data_ptr() + 63) // 64 * 64, num_bytes, held
        return found[:2]


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
