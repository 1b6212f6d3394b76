"""Firefox without a window, driven over its Marionette port; neither Playwright nor geckodriver is needed."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
STARTING_SECONDS = 60


class Firefox:
    """A session: commands of WebDriver under Marionette's names."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._number = connection, 0
        self._receive()  # the greeting
        self.run("WebDriver:NewSession", {})

    def run(self, command: str, parameters: dict[str, Any]) -> Any:
        """Return the result of a command; AssertionError with its error."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(b"%d:%b" % (len(message), message))
        _, _, error, result = self._receive()
        assert error is None, error
        return result

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        return self.run("WebDriver:ExecuteScript", {"script": f"return {expression}", "args": []})["value"]

    def wait_for(self, expression: str, seconds: float) -> Any:
        """Return the value of an expression once it is true; AssertionError after some seconds."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, expression
            time.sleep(0.2)
        return value

    def _receive(self) -> Any:
        length, _, content = b"", b"", b""
        while not length.endswith(b":"):
            length += self._connection.recv(1)
        while len(content) < int(length[:-1]):
            content += self._connection.recv(int(length[:-1]) - len(content))
        return json.loads(content)


@contextlib.contextmanager
def open_firefox(profile: Path) -> Iterator[Firefox]:
    """Start Firefox on a fresh profile, and end it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    (profile / "user.js").write_text(f'user_pref("marionette.port", {port});')
    command = [FIREFOX, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with _connect(port, process) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(30)


def _connect(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    end = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=STARTING_SECONDS)
        except ConnectionRefusedError:
            assert process.poll() is None and time.monotonic() < end, "Firefox did not start"
            time.sleep(0.2)
