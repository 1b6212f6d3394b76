"""Run commands in this process, and a folder with the tiny model."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from elmo import Elmo
from elmo.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def message(self) -> str:
        """The one line of a call that failed as it should."""
        assert self.code == 2, self
        assert self.err.count("\n") == 1 and self.err.startswith("elmo: "), self.err
        return self.err.removeprefix("elmo: ").rstrip("\n")


Run = Callable[..., Answer]


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """The model is so small that threads only wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str | Path, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def model_folder(tiny_model: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model.save_pretrained(folder)
    return folder
