"""Compile driver.c, which calls every kernel on random input, against a library with any flags and compiler."""

import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import hatch_build
import pytest

SOURCES = Path(hatch_build.__file__).parent / "src" / "elmo" / "kernels" / "csrc"
_DRIVER = Path(__file__).with_name("driver.c")
_FAMILIES = {"x86_64": "ELMO_X86", "aarch64": "ELMO_ARM", "arm64": "ELMO_ARM"}


class Driver:
    """The compiled driver."""

    def __init__(self, program: Path) -> None:
        self._program = str(program)

    def run(self, *arguments: object, runner: Sequence[str] = ()) -> str:
        """Return what the driver prints; fail with its errors."""
        command = [*runner, self._program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.returncode}\n{done.stderr[-4000:]}"
        return done.stdout

    def list_variants(self, runner: Sequence[str] = ()) -> list[str]:
        """Return the variants of the processor, best first."""
        return self.run("variants", runner=runner).split()


def build_driver(
    folder: Path, monkeypatch: pytest.MonkeyPatch, flags: Sequence[str] = (), compiler: str = "", machine: str = ""
) -> Driver:
    """Compile the library and the driver with more flags, by default for this machine."""
    compiler, machine = compiler or os.environ.get("CC") or "cc", machine or platform.machine()
    if machine not in _FAMILIES:
        pytest.skip(f"{machine} has the portable variant only")
    monkeypatch.setenv("CC", compiler)
    library = folder / "libkernels.so"
    hatch_build.compile_library(SOURCES, library, [*hatch_build.STRICT, *flags], machine)
    command = [
        *shlex.split(compiler), "-O1", "-std=gnu11", "-ffp-contract=off", "-pthread", *hatch_build.STRICT, *flags,
        f"-D{_FAMILIES[machine]}", f"-I{SOURCES}", str(_DRIVER), str(library), f"-Wl,-rpath,{folder}", "-lm",
        "-o", str(folder / "driver"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True)
    return Driver(folder / "driver")
