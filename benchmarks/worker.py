"""The client side of a worker: one program in a separate process, controlled by lines of JSON (see worker_loop.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Worker:
    """A script of this folder, started with options and closed at the end; its messages go to a log."""

    def __init__(
        self,
        script: str,
        options: dict[str, Any],
        log: Path,
        *,
        python: Path | str = sys.executable,
        source: Path | None = None,
    ) -> None:
        """Start the script and wait until it is ready; `source` is the folder from which it imports elmo."""
        environment = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source)}
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [str(python), "-W", "ignore", str(HERE / script), json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        ready = self._receive()
        self.opening_seconds: float = ready["seconds"]
        self.described: dict[str, Any] = ready["described"]

    def ask(self, function: str, **arguments: Any) -> dict[str, Any]:
        """Call a function of the worker; return its `result` and the `seconds` it took."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"function": function, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        """Wait for the next response; if the program has ended, exit with its last messages."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"A program stopped; its messages are in {self._log}:\n{self._log.read_text()[-2000:]}")
        response: dict[str, Any] = json.loads(line)
        return response

    def close(self) -> None:
        """Close standard input and wait; kill the process after a minute."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def open_ours(script: str, options: dict[str, Any], workdir: Path, *, name: str, source: Path) -> Worker:
    """Start a worker of this project with elmo from `source`, and check that it was imported from there."""
    worker = Worker(script, options, workdir / f"{name.replace(' ', '-')}.log", source=source)
    package = Path(worker.described["package"])
    if not package.is_relative_to(source):
        worker.close()
        sys.exit(f"{name} imported elmo from {package}, but {source} was to be measured; check PYTHONPATH.")
    return worker
