"""Build hook: compile src/elmo/kernels/csrc into one shared library that Python loads with ctypes.

Without a C compiler, the package is built without the library and runs on NumPy, which is slower.
With ELMO_BUILD_KERNELS=require, a missing compiler or a compiler warning is an error; with =off, the build is skipped.
"""

import os
import platform
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# No implicit fused multiply-add: every compiler and instruction set must give the same bits.
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-fvisibility=default", "-ffp-contract=off"]
STRICT = ["-Wall", "-Wextra", "-Werror"]
_THREADS = [] if sys.platform == "win32" else ["-pthread"]
_AVX2 = ["-mavx2", "-mfma", "-mf16c"]
_AVX512 = [*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]
X86_VARIANTS = {"avx2": _AVX2, "avx512": _AVX512, "avx512vnni": [*_AVX512, "-mavx512vnni"]}
ARM_VARIANTS = {
    "neon": [],
    "neondot": ["-march=armv8.2-a+dotprod"],
    "neoni8mm": ["-march=armv8.2-a+dotprod+i8mm"],
}


class KernelBuildHook(BuildHookInterface):
    """Add the compiled library to wheels and, for editable installs, to the source folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library and, on success, tag the wheel with this platform."""
        requested = os.environ.get("ELMO_BUILD_KERNELS", "auto")
        if requested == "off":
            return
        folder = Path(self.root) / "src" / "elmo" / "kernels"
        library = folder / f"_native.{'dll' if sys.platform == 'win32' else 'so'}"
        try:
            compile_library(folder / "csrc", library, STRICT if requested == "require" else ())
        except (OSError, subprocess.CalledProcessError) as error:
            library.unlink(missing_ok=True)  # one from an earlier build would not match the sources
            output = getattr(error, "stderr", None) or str(error)
            if requested == "require":
                raise SystemExit(f"The kernels could not be compiled: {output}") from error
            reason = str(output).strip().splitlines()[:1]
            self.app.display_warning(f"no compiled kernels ({' '.join(reason)}): elmo will run on NumPy (slower)")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag()}"
        build_data["artifacts"].append(str(library.relative_to(self.root)))


def compile_library(
    sources: Path, library: Path, extra_flags: Sequence[str] = (), machine: str = platform.machine()
) -> None:
    """Compile every instruction-set variant for a processor family with its own flags, then link them atomically."""
    compiler = _find_compiler()
    variants: dict[str, list[str]] = {"portable": []}
    family = []
    if machine.lower() in ("x86_64", "amd64"):
        variants, family = {**variants, **X86_VARIANTS}, ["-DELMO_X86"]
    elif machine.lower() in ("aarch64", "arm64"):
        variants, family = {**variants, **ARM_VARIANTS}, ["-DELMO_ARM"]
    shared = [*FLAGS, *_THREADS, *family, *extra_flags]
    digest = runpy.run_path(str(sources.with_name("sources.py")))["hash_sources"](sources)
    units = {**variants, "library": [f'-DELMO_SOURCE_HASH="{digest}"'], "helper": []}
    with tempfile.TemporaryDirectory() as temporary:
        objects = []
        for name, flags in units.items():
            objects.append(str(Path(temporary) / f"{name}.o"))
            _run([*compiler, *shared, *flags, "-c", str(sources / f"{name}.c"), "-o", objects[-1]])
        linked = library.with_name(f"{library.name}.{os.getpid()}")
        _run([*compiler, "-shared", *_THREADS, *extra_flags, *objects, "-o", str(linked)])
        linked.replace(library)


def _find_compiler() -> list[str]:
    compiler = shlex.split(os.environ.get("CC") or "")
    # GCC for Windows does not align the stack for AVX (GCC bug 54412), so only clang is used there.
    names = ("clang",) if sys.platform == "win32" else ("cc", "gcc", "clang")
    compiler = compiler or [name for name in names if shutil.which(name)][:1]
    if not compiler:
        raise OSError(f"no C compiler ({', '.join(names)}) was found")
    return compiler


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _platform_tag() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
