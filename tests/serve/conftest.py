"""Small models behind the real application, in this process or in a separate one."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

pytest.importorskip("fastapi", reason="the extra modern-elmo[serve] is not installed")
import httpx
from fastapi.testclient import TestClient

from elmo import Elmo
from elmo.serve.app import create_app
from elmo.serve.served import Served, ServedModel
from elmo.serve.settings import Settings
from elmo.tasks import TaskOptions, train
from tests.tasks.toys import small, write_toy


@pytest.fixture(scope="session")
def tagger(language_folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    files = [str(write_toy("tagging", folder, name, seed=seed)) for seed, name in enumerate(("train", "dev"))]
    settings, options = small("tagging", fit__num_epochs=4), TaskOptions(cache_folder=str(folder / "cache"))
    places = {"dev": files[1], "model": language_folder, "output": folder / "places"}
    return train(files[0], kind="ner", **places, settings=settings, options=options).folder


@contextmanager
def serving(model: Elmo, *, tasks: dict | None = None, **settings) -> Iterator[TestClient]:
    """The application in this process."""
    served = Served({"tiny": ServedModel("tiny", model)}, tasks or {})
    app = create_app(Settings(**settings), served)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def client(language_model: Elmo) -> Iterator[TestClient]:
    with serving(language_model) as client:
        yield client


@dataclass
class Process:
    """`elmo serve` as users start it."""

    process: subprocess.Popen
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def sockets(self) -> set[str]:
        names = set()
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                names.add(str(file.readlink()))
        return {name for name in names if name.startswith("socket:")}

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def start_process(*arguments: str | Path, **environment: str) -> Iterator[Process]:
    """Start the command on a free port of the loopback, and end it."""
    command = [sys.executable, "-m", "elmo", "serve", *map(str, arguments), "--port", "0", "--threads", "1"]
    command += ["--precision", "float32"] if arguments else []
    with tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env={**os.environ, **environment})
        try:
            yield Process(process, _wait_until_ready(process, stderr))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen, stderr: TextIO) -> str:
    for _ in range(600):
        stderr.seek(0)
        text = stderr.read()
        if process.poll() is not None:
            raise AssertionError(text)
        if address := re.search(r"serving at (http://\S+/)", text):
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{address[1]}health", timeout=60).status_code == 200:
                    return address[1]
        time.sleep(0.1)
    raise AssertionError(text)
