"""The same bits with every instruction set: x86 here, 64-bit ARM in qemu; Windows is only built."""

import platform
import shutil
import subprocess
from pathlib import Path

import hatch_build
import pytest

from tests.kernels.driver import SOURCES, build_driver

pytestmark = pytest.mark.slow
NUM_SEEDS = 300
ARM_COMPILER = "aarch64-linux-gnu-gcc"
QEMU = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
PRECISIONS = ("float32", "int8")


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def native(tmp_path_factory, module_patch):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    return build_driver(tmp_path_factory.mktemp("native"), module_patch)


@pytest.fixture(scope="module")
def arm(tmp_path_factory, module_patch):
    missing = [program for program in (ARM_COMPILER, QEMU[0]) if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return build_driver(tmp_path_factory.mktemp("arm"), module_patch, compiler=ARM_COMPILER, machine="aarch64")


def is_exact(variant, precision):
    """Say whether a variant has the bits of all others: x86 without AVX2 cannot fuse the products of float32."""
    return precision == "int8" or variant != "portable" or platform.machine() in ("aarch64", "arm64")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_variant_gives_the_same_bits(native, precision):
    variants = [variant for variant in native.list_variants() if is_exact(variant, precision)]
    results = [native.run(variant, precision, 0, NUM_SEEDS) for variant in variants]
    assert results[0].count("seed") == NUM_SEEDS
    for variant, result in zip(variants, results, strict=True):
        assert result == results[0], f"{variant} differs from {variants[0]}"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_threads_do_not_change_bits(native, precision):
    best = native.list_variants()[0]
    assert native.run(best, precision, 0, NUM_SEEDS, 4) == native.run(best, precision, 0, NUM_SEEDS)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_64_bit_arm_gives_the_same_bits_as_this_processor(native, arm, precision):
    best = native.list_variants()[0]
    if not is_exact(best, precision):
        pytest.skip("this processor does not fuse products and sums")
    expected = native.run(best, precision, 0, NUM_SEEDS)
    variants = arm.list_variants(runner=(*QEMU, "-cpu", "max"))
    assert variants == ["neoni8mm", "neondot", "neon", "portable"]
    for variant in variants:
        assert arm.run(variant, precision, 0, NUM_SEEDS, runner=(*QEMU, "-cpu", "max")) == expected, variant


def test_a_plain_arm_processor_runs_neon(arm):
    plain = (*QEMU, "-cpu", "cortex-a72")
    assert arm.list_variants(runner=plain) == ["neon", "portable"]
    expected = arm.run("neon", "int8", 0, 50, runner=(*QEMU, "-cpu", "max"))
    assert arm.run("neon", "int8", 0, 50, runner=plain) == expected


def test_the_library_for_windows_compiles_and_links(tmp_path, monkeypatch):
    gcc = "x86_64-w64-mingw32-gcc"  # for its libraries; the compiler is clang, which aligns the stack for AVX
    missing = [program for program in ("clang", gcc) if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    libraries = Path(subprocess.run([gcc, "-print-libgcc-file-name"], capture_output=True, text=True).stdout).parent
    monkeypatch.setenv("CC", f"clang --target=x86_64-w64-mingw32 -Qunused-arguments -L{libraries}")
    library = tmp_path / "_native.dll"
    hatch_build.compile_library(SOURCES, library, hatch_build.STRICT, "x86_64")
    content = library.read_bytes()
    assert content[:2] == b"MZ"
    for variant in ("portable", *hatch_build.X86_VARIANTS):
        assert f"elmo_forward_{variant}".encode() in content
