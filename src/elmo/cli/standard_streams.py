"""Standard streams that were closed when the process began -> streams that behave.

Python has None in their place, and the system would give their numbers to the next files that are opened.
"""

import io
import os
import sys


class ClosedOutput(io.RawIOBase):
    """Takes what is written where standard output is closed; knows whether anything was."""

    has_content = False

    def writable(self) -> bool:
        """Return True, so that text streams can be made of it."""
        return True

    def write(self, content: object) -> int:
        """Drop the content."""
        size = memoryview(content).nbytes  # type: ignore[arg-type]
        self.has_content = self.has_content or size > 0
        return size


def replace_closed_streams() -> ClosedOutput | None:
    """Put streams where Python has none; return what stands for standard output if that is closed.

    Standard input stays None: readers of it say that it is closed (open_stdin).
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is not None:
        return None
    closed = ClosedOutput()
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(closed), encoding="utf-8", errors="backslashreplace")
    return closed
