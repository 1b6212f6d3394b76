"""Every kernel and variant on random shapes, NaN, infinity and invalid ids under ASan, UBSan and TSan."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.driver import Driver, build_driver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
NUM_SEEDS = 400
MEMORY = ["-g", "-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
THREADS = ["-g", "-O1", "-fsanitize=thread"]
# What Python itself keeps until it ends is no leak; the driver is checked for leaks.
PYTHON_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def find_runtime(name):
    """Return the path of a sanitizer's runtime library, or skip."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("the sanitizers of gcc on Linux are used")
    path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    if not Path(path.strip()).is_absolute():
        pytest.skip(f"{name} is not installed")
    return path.strip()


@pytest.fixture(scope="module")
def checked_folder(tmp_path_factory):
    """A folder with the library and the driver under ASan and UBSan; compiling them takes longest."""
    find_runtime("libasan.so")
    folder = tmp_path_factory.mktemp("checked")
    with pytest.MonkeyPatch.context() as patch:
        build_driver(folder, patch, MEMORY, "gcc")
    return folder


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_no_kernel_touches_memory_it_does_not_own_or_does_undefined_things(checked_folder, precision):
    driver = Driver(checked_folder / "driver")
    for variant in driver.list_variants():
        assert driver.run(variant, precision, 0, NUM_SEEDS).count("seed") == NUM_SEEDS


def test_threads_do_not_race(tmp_path, monkeypatch):
    find_runtime("libtsan.so")
    driver = build_driver(tmp_path, monkeypatch, THREADS, "gcc")
    runner = ("setarch", "-R") if shutil.which("setarch") else ()  # TSan needs a usual memory layout
    for variant in driver.list_variants():
        for precision in ("float32", "int8"):
            expected = driver.run(variant, precision, 0, NUM_SEEDS // 4, runner=runner)
            assert driver.run(variant, precision, 0, NUM_SEEDS // 4, 4, runner=runner) == expected


def test_the_kernel_tests_pass_under_the_address_sanitizer(checked_folder):
    runtimes = " ".join(find_runtime(name) for name in ("libasan.so", "libubsan.so"))
    tests = [str(path) for path in sorted(Path(__file__).parent.glob("test_*.py")) if path != Path(__file__)]
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-k", "not process and not fork"]
    program = f"""
import sys
from pathlib import Path
import pytest
from elmo.kernels import library
library._PATH = Path({str(checked_folder / "libkernels.so")!r})
assert library.find_library() is not None
sys.exit(pytest.main({[*options, *tests]!r}))
"""
    environment = {**os.environ, **PYTHON_OPTIONS, "LD_PRELOAD": runtimes}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
