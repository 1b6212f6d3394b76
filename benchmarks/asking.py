"""A program in a process of its own, asked in lines of JSON: one question, one answer."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class AskedProcess:
    """Started with a command, ended by closing; its messages go to a log."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def send(self, question: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self.receive()

    def receive(self) -> dict[str, Any]:
        """Wait for what the program says next; its end ends the benchmark."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"A program stopped; its messages are in {self._log}:\n{self._log.read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let it end; a minute later it is ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
