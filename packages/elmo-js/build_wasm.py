"""Compile kernels/csrc/wasm.c to serve/page/elmo.wasm, which is in the repository.

    python packages/elmo-js/build_wasm.py

It needs clang and wasm-ld (Debian: clang, lld). The file contains the hash of its sources; a test fails if they have
changed since. Installing the package does not compile it.
"""

import runpy
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "elmo"
SOURCES = PACKAGE / "kernels" / "csrc"
OUTPUT = PACKAGE / "serve" / "page" / "elmo.wasm"
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-msimd128", "-mbulk-memory", "-Wall", "-Wextra")
LINK_FLAGS = ("-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=262144")
# There is no libc; the functions that the kernels need are compiled to instructions.
FUNCTIONS = ("-Dsqrtf=__builtin_sqrtf", "-Dfabsf=__builtin_fabsf")


def source_hash() -> str:
    """Return the hash of the C sources."""
    digest: str = runpy.run_path(str(SOURCES.with_name("sources.py")))["hash_sources"](SOURCES)
    return digest


def build(output: Path = OUTPUT, compiler: str = "clang") -> None:
    """Compile the kernels for WebAssembly; subprocess.CalledProcessError if that fails."""
    command = [compiler, "--target=wasm32", *FLAGS, *FUNCTIONS, f'-DELMO_SOURCE_HASH="{source_hash()}"']
    subprocess.run([*command, *LINK_FLAGS, str(SOURCES / "wasm.c"), "-o", str(output)], check=True)
    output.chmod(0o644)


if __name__ == "__main__":
    build()
    sys.stdout.write(f"{OUTPUT}: {OUTPUT.stat().st_size:,} bytes\n")
