"""Whether a vector folder holds what its manifest says."""

from collections.abc import Callable
from pathlib import Path

from elmo.errors import InputError
from elmo.files.durable import sha256_of
from elmo.vectors.manifest import Manifest


def verify(
    folder: Path,
    manifest: Manifest,
    advance: Callable[[int], None] = lambda size: None,
    *,
    checksums: bool = True,
) -> None:
    """Compare the size of every file and, reading all of it, its checksum; InputError with what is wrong."""
    faults = find_wrong_sizes(folder, manifest)
    if checksums and not faults:
        for file in manifest.files():
            if sha256_of(folder / file.name, advance) != file.sha256:
                faults.append(f"{file.name} has other bytes than were written")
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise InputError(
            f"{folder} is damaged: {'; '.join(faults[:3])}{more}; copy it anew, or run the command that wrote it "
            "again with --force."
        )


def find_wrong_sizes(folder: Path, manifest: Manifest) -> list[str]:
    """Say which files are missing or have another size, or do not belong here."""
    faults = []
    known = set()
    for file in manifest.files():
        known.add(file.name)
        path = folder / file.name
        if not path.is_file():
            faults.append(f"{file.name} is missing")
        elif path.stat().st_size != file.num_bytes:
            faults.append(f"{file.name} has {path.stat().st_size:,} bytes, not {file.num_bytes:,}")
    strangers = sorted(path.name for path in folder.glob("part-*") if path.name not in known)
    return faults + [f"{name} does not belong to it" for name in strangers]
