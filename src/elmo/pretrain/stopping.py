"""SIGTERM or Ctrl-C -> a run that saves the update it is at, and ends. Schedulers and clouds warn in this way."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

IMPATIENT_SECONDS = 1.0  # torchrun hands a Ctrl-C on that its processes have got already; a person takes longer


class StopRequest:
    """Listens for the signals while it is entered; a second Ctrl-C ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None  # the first one that came
        self._asked_at = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():  # Python lets no other one listen
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def is_asked(self) -> bool:
        """Whether a signal came."""
        return self.signal is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._asked_at = number, now
        elif number == signal.SIGINT and now - self._asked_at > IMPATIENT_SECONDS:
            raise KeyboardInterrupt
