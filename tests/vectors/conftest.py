"""A text of several parts, and the bytes of a folder."""

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

SENTENCES = [f"Sentence {number} is about the bank / river{' and more' * (number % 5)}" for number in range(60)]
SENTENCES[7] = ""
SENTENCES[9] = SENTENCES[8]
PART_BYTES = 600  # several parts of several sentences


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    return path


class WorkerKiller:
    """Kills a worker process when the first words are done; for the fixture `on_progress`."""

    def __init__(self, list_processes: Callable[[], list[int]]) -> None:
        self.list_processes = list_processes
        self.killed: int | None = None

    def __call__(self, num_words: int, num_bytes: int) -> None:
        if num_words and self.killed is None:
            self.killed = self.list_processes()[0]
            os.kill(self.killed, signal.SIGKILL)


def read_all(folder: Path) -> dict[str, str]:
    """Return the checksum of every file, hidden ones too."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
