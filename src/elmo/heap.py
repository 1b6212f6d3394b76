"""Large blocks of memory are kept for reuse instead of being given back to the system after each use."""

import ctypes
import sys

# Numbers of glibc's mallopt (malloc.h).
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
NEVER = 2**31 - 1
GROWTH_BYTES = 64 * 2**20


def reuse_large_blocks() -> None:
    """Make this process keep freed memory, for commands that make the same large tensors again and again.

    By default glibc maps each block of some megabytes anew, and the system clears its pages: a product with a
    large result then takes twice its time. The setting belongs to the process, so a library must not make it.
    Elsewhere than on Linux with glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, NEVER)
        mallopt(TOP_PAD, GROWTH_BYTES)


def return_free_memory() -> None:
    """Return memory that was freed but kept for reuse to the system; only on Linux with glibc."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
