"""Build hook: compile src/elmo/kernels/csrc into one shared library that Python opens with ctypes.

Without a C compiler the package is built without it and runs on NumPy, which is slower; ELMO_BUILD_KERNELS=require
fails instead, ELMO_BUILD_KERNELS=off does not try.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-fvisibility=default", "-ffp-contract=fast"]
_THREADS = [] if sys.platform == "win32" else ["-pthread"]
_AVX2 = ["-mavx2", "-mfma", "-mf16c"]
_AVX512 = [*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]
X86_VARIANTS = {"avx2": _AVX2, "avx512": _AVX512, "avx512vnni": [*_AVX512, "-mavx512vnni"]}


class KernelBuildHook(BuildHookInterface):
    """Adds the compiled library to wheels and, for editable installs, to the source folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as made for this platform if that worked."""
        wish = os.environ.get("ELMO_BUILD_KERNELS", "auto")
        if wish == "off":
            return
        folder = Path(self.root) / "src" / "elmo" / "kernels"
        library = folder / f"_native.{'dll' if sys.platform == 'win32' else 'so'}"
        try:
            compile_library(folder / "csrc", library)
        except (OSError, subprocess.CalledProcessError) as error:
            library.unlink(missing_ok=True)  # one of an earlier build would be of other sources
            output = getattr(error, "stderr", None) or str(error)
            if wish == "require":
                raise SystemExit(f"The kernels could not be compiled: {output}") from error
            reason = str(output).strip().splitlines()[:1]
            self.app.display_warning(f"elmo will run on NumPy, which is slower: no kernels ({' '.join(reason)})")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag()}"
        build_data["artifacts"].append(str(library.relative_to(self.root)))


def compile_library(sources: Path, library: Path) -> None:
    """Compile every variant for this processor's family with its own flags and link them, aside and renamed."""
    compiler = shlex.split(os.environ.get("CC") or "")
    compiler = compiler or [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]
    if not compiler:
        raise OSError("no C compiler (cc, gcc, clang) was found")
    variants: dict[str, list[str]] = {"portable": []}
    defined = []
    if platform.machine().lower() in ("x86_64", "amd64"):
        variants.update(X86_VARIANTS)
        defined = ["-DELMO_X86"]
    with tempfile.TemporaryDirectory() as temporary:
        objects = []
        for name, flags in {**variants, "library": defined, "helper": []}.items():
            objects.append(str(Path(temporary) / f"{name}.o"))
            _run([*compiler, *FLAGS, *_THREADS, *flags, "-c", str(sources / f"{name}.c"), "-o", objects[-1]])
        linked = library.with_name(f"{library.name}.{os.getpid()}")
        _run([*compiler, "-shared", *_THREADS, *objects, "-o", str(linked)])
        linked.replace(library)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _platform_tag() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
