"""Settings of the C memory allocator: keep large freed blocks for reuse, and release them on request."""

import ctypes
import sys

# Numbers of glibc's mallopt (malloc.h).
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
NEVER = 2**31 - 1
GROWTH_BYTES = 64 * 2**20


def reuse_large_blocks() -> None:
    """Keep freed memory in this process, for commands that allocate the same large tensors again and again.

    By default glibc maps each block of several megabytes again, and the system clears its pages, which doubles the
    time of a matrix multiplication with a large result. The setting affects the whole process, so a library must
    not change it. It does nothing except on Linux with glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, NEVER)
        mallopt(TOP_PAD, GROWTH_BYTES)


def return_free_memory() -> None:
    """Return the freed memory that was kept for reuse to the system; only on Linux with glibc."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
