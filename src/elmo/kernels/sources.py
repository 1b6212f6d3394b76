"""The hash of the C sources. hatch_build.py and build_wasm.py run this file alone, so it imports nothing of elmo."""

import hashlib
from pathlib import Path


def hash_sources(folder: Path) -> str:
    """Return 16 hex digits of the SHA-256 of the C sources: names and contents, in order."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
