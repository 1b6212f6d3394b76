"""Memory that is free but kept for reuse (heap.py) -> back to the system, when the server is idle."""

import ctypes
import sys


def give_back_memory() -> None:
    """Return free memory to the system; elsewhere than on Linux with glibc nothing happens."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
