"""Find the compiled library, choose its variant for this processor, and declare its functions for ctypes.

ELMO_KERNELS: "auto" (the default), "off" for NumPy, or the name of a variant. ctypes releases the GIL during every
call. The only state of the library is a helper thread, see csrc/helper.c.
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
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from elmo.errors import ConfigError, ElmoError
from elmo.kernels.sources import hash_sources

logger = logging.getLogger(__name__)
ScalarT = TypeVar("ScalarT", bound=np.generic)

VARIABLE = "ELMO_KERNELS"
VARIANTS = ("avx512vnni", "avx512", "avx2", "neoni8mm", "neondot", "neon", "portable")
_ABI = 6  # as in csrc/kernels.h
MAX_HIGHWAYS = 4  # ELMO_MAX_HIGHWAYS
_FOLDER = Path(__file__).parent
_PATH = _FOLDER / f"_native.{'dll' if sys.platform == 'win32' else 'so'}"
_SOURCES = _FOLDER / "csrc"

_pointer, _int, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURES: dict[str, tuple[type[Any] | None, list[type[Any]]]] = {
    "panel": (_int, []),
    "input_levels": (_int, []),
    "multiply_scratch": (_int, [_pointer, _int]),
    "multiply": (None, [_pointer, _pointer, _pointer, _int, _pointer, _pointer]),
    "forward": (_int, [_pointer, _int, _int, _pointer, _int]),
    "encode": (_int, [_pointer, _pointer, _int, _int, _pointer, _pointer, _int]),
    "meanings": (_int, [_pointer, _pointer, _int, _pointer, _int]),
    "nearest": (None, [_pointer, _pointer, _int, _int, _pointer, _pointer, _int, _int, *[_pointer] * 3]),
    "convolve": (None, [_pointer, _pointer, _pointer, _int, _pointer, _pointer]),
    "convolve_back": (None, [_pointer, _pointer, _int, _pointer, _pointer, _pointer]),
    "train_forward": (None, [_int, _int, _int, *[_pointer] * 5, _float, *[_pointer] * 4]),
    "train_backward": (None, [_int, _int, _int, *[_pointer] * 6, _float, *[_pointer] * 3]),
}


def struct_fields(field_type: type[Any], names: str) -> list[tuple[str, type[Any]]]:
    """Return fields of a struct that have the same type."""
    return [(name, field_type) for name in names.split()]


# The structs of csrc/kernels.h, whose names begin with elmo_.
class MatrixStruct(ctypes.Structure):
    """elmo_matrix."""

    _fields_ = (
        *struct_fields(_int, "num_inputs num_outputs num_groups"),
        *struct_fields(_pointer, "float32 float16 int8 scales sums"),
    )


class LstmStruct(ctypes.Structure):
    """elmo_lstm."""

    _fields_ = (
        *struct_fields(MatrixStruct, "from_inputs from_state projection"),
        *struct_fields(_pointer, "bias"),
        *struct_fields(_float, "cell_clip projection_clip"),
    )


class WindowStruct(ctypes.Structure):
    """elmo_window."""

    _fields_ = (
        ("num_steps", _int), ("counts", _pointer), ("num_rows", _int), ("words", _pointer), ("num_words", _int),
        ("sources", _pointer), ("targets", _pointer), ("num_state_rows", _int), ("has_state", _int),
        ("hidden", _pointer), ("cell", _pointer), ("num_vectors", _int), ("weights", _pointer),
        ("result", _pointer), ("result_stride", _int),
    )  # fmt: skip


class DirectionStruct(ctypes.Structure):
    """elmo_direction."""

    _fields_ = (("layers", _pointer), ("num_layers", _int), ("residual", _int), ("window", WindowStruct))


class CharTableStruct(ctypes.Structure):
    """elmo_char_table."""

    _fields_ = (
        *struct_fields(_int, "num_features num_filters num_characters"),
        *struct_fields(_pointer, "widths channels table"),
        ("row_size", _int),
        ("bias", _pointer),
    )


class WordEncoderStruct(ctypes.Structure):
    """elmo_word_encoder."""

    _fields_ = (
        ("table", CharTableStruct),
        *struct_fields(_int, "alphabet_size activation num_highways"),
        ("highways", MatrixStruct * MAX_HIGHWAYS),
        ("highway_biases", _pointer * MAX_HIGHWAYS),
        ("projection", MatrixStruct),
        ("projection_bias", _pointer),
    )


class Library:
    """The functions of one variant of the library."""

    def __init__(self, opened: ctypes.CDLL, variant: str, variants: tuple[str, ...]) -> None:
        self.variant, self.variants = variant, variants  # the variants that this processor supports, the fastest first
        self._scratch = threading.local()
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(opened, f"elmo_{name}_{variant}")
            function.restype, function.argtypes = result, arguments
            self.__dict__[name] = function
        self.has_helper = bool(opened.elmo_has_helper())
        self.wake_helper = opened.elmo_wake_helper
        self.wake_helper.restype, self.wake_helper.argtypes = None, []
        self.panel: int = self.__dict__["panel"]()
        self.input_levels: int = self.__dict__["input_levels"]()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a function of _SIGNATURES."""

    def run_with_scratch(self, function: Callable[..., int], *arguments: Any) -> int:
        """Call a function whose last arguments are scratch memory and its size; if it needs more, call it again."""
        result = function(*arguments, *self.scratch(0))  # if positive, the number of bytes that it needs
        return function(*arguments, *self.scratch(result)) if result > 0 else result

    def scratch(self, num_bytes: int) -> tuple[int, int]:
        """Return the address and size of at least `num_bytes` of memory, which this thread has until its next call."""
        memory: tuple[int, int, npt.NDArray[np.uint8]] | None = getattr(self._scratch, "memory", None)
        if memory is None or memory[1] < num_bytes:
            array = np.empty(num_bytes + 64, dtype=np.uint8)
            memory = self._scratch.memory = (array.ctypes.data + 63) // 64 * 64, num_bytes, array
        return memory[:2]


class KernelError(ElmoError):
    """An array has the wrong type or shape for a kernel, or is not contiguous."""


def address_of(array: npt.NDArray[Any], name: str, dtype: type[Any], shape: tuple[int, ...]) -> int:
    """Return the address of an array after checking its type, shape and layout."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise KernelError(
            f"{name} is {array.dtype} of shape {array.shape}; a C-contiguous array of {np.dtype(dtype)} and shape "
            f"{shape} is needed."
        )
    return int(array.ctypes.data)


def align(array: npt.NDArray[ScalarT]) -> npt.NDArray[ScalarT]:
    """Return a contiguous copy aligned to a cache line, so that no line is read twice."""
    memory = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    aligned[...] = array
    return aligned


@dataclass(frozen=True)
class Kernels:
    """The library to use, or None with the reason."""

    library: Library | None
    reason: str


def find_kernels() -> Kernels:
    """Return the library variant that ELMO_KERNELS selects for this processor."""
    return _open(os.environ.get(VARIABLE) or "auto")


def find_library() -> Library | None:
    """Return the library for this processor, or None if everything runs in NumPy."""
    return find_kernels().library


@functools.cache
def _open(requested: str) -> Kernels:
    if requested not in ("auto", "off", *VARIANTS):
        raise ConfigError(f"{VARIABLE} is {requested!r}; choose auto, off or one of {', '.join(VARIANTS)}.")
    if requested == "off":
        return Kernels(None, f"{VARIABLE} is off")
    try:
        opened = ctypes.CDLL(str(_PATH))
        if opened.elmo_abi() != _ABI or not _is_current(opened):
            raise OSError("it was built from other sources; install the package again")
        variants = _list_variants(opened)
    except (OSError, AttributeError) as error:
        not_built = "they were not built, because the installation found no C compiler"
        reason = f"{error}" if _PATH.exists() else not_built
        logger.warning("The compiled kernels are not available (%s); NumPy is used, which is slower.", reason)
        return Kernels(None, reason)
    variant = variants[0] if requested == "auto" else requested
    if variant not in variants:
        raise ConfigError(
            f"{VARIABLE} is {requested!r}, but this processor runs {', '.join(variants)}; choose one or auto."
        )
    return Kernels(Library(opened, variant, variants), variant)


def _list_variants(opened: ctypes.CDLL) -> tuple[str, ...]:
    """Return the variants that this processor supports, the fastest first."""
    opened.elmo_variant.restype, opened.elmo_variant.argtypes = ctypes.c_char_p, [_int]
    names = (opened.elmo_variant(number) for number in range(len(VARIANTS)))
    return tuple(name.decode() for name in names if name is not None)


def _is_current(opened: ctypes.CDLL) -> bool:
    """Return whether the library was compiled from the sources in this package, if they are installed."""
    if not _SOURCES.is_dir():
        return True
    opened.elmo_source_hash.restype = ctypes.c_char_p
    return bool(opened.elmo_source_hash().decode() == hash_sources(_SOURCES))
