"""The folder a corpus is written to: whose it is, what it holds already, and what of it may be removed."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo.corpus.prepared import MANIFEST, VOCABULARY, PreparedCorpus, is_corpus, read_manifest
from elmo.corpus.shards import SHARDS
from elmo.corpus.word_table import BYTES, OFFSETS, TARGETS, TOTALS
from elmo.errors import InputError
from elmo.files.durable import is_leftover, remove_leftovers, sync, take_lock

WORK, PARTS = ".preparing", "parts"  # what is needed on the way, the lock too; removed at the end
# Besides the manifest, which goes first.
_OWN_NAMES = (SHARDS, VOCABULARY, BYTES, OFFSETS, TOTALS, TARGETS)


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Make the folder, refuse one with files of somebody else, and keep other runs out of it."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder to write the corpus to.")
    if others := _list_foreign(output):
        raise InputError(f"{output} holds other files ({', '.join(others[:3])}); give a new or empty folder.")
    is_new = not output.exists()
    work = output / WORK
    work.mkdir(parents=True, exist_ok=True)
    lock = take_lock(work / "lock", f"Another run is writing to {output}; wait for it or give another folder.")
    try:
        remove_leftovers(output)
        yield
    finally:
        lock.release()
        # Only parts of an unfinished corpus are worth keeping, and files that without them would seem foreign.
        finished = [*work.glob(f"{PARTS}/[0-9]*"), *(name for name in _OWN_NAMES if (output / name).exists())]
        if (output / MANIFEST).exists() or not finished:
            shutil.rmtree(work, ignore_errors=True)
        if is_new and not any(output.iterdir()):
            output.rmdir()


def _list_foreign(output: Path) -> list[str]:
    """Return the names in a folder that are not of a corpus; only a manifest or unfinished work make them ours."""
    if not output.is_dir():
        return []
    is_ours = is_corpus(output) or (output / WORK).is_dir()
    own = {WORK, MANIFEST, *_OWN_NAMES} if is_ours else set()
    return sorted(
        entry.name for entry in output.iterdir() if entry.name not in own and not is_leftover(entry.name)
    )


def is_finished(output: Path, description: Mapping[str, Any]) -> bool:
    """Whether the folder holds this very corpus; InputError if it holds another one."""
    manifest = read_manifest(output)
    if manifest is None:
        return False
    if found := list(_differences(manifest, description)):
        raise InputError(
            f"{output} holds a corpus that was prepared otherwise ({'; '.join(found)}); give another folder, or "
            "--force to replace it."
        )
    PreparedCorpus.open(output)
    return True


def differing_settings(manifest: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[str]:
    """Say of each setting and each version of a library that is not as it was, what it was and what it is."""
    for group in ("settings", "made_with"):
        old, new = manifest[group], description[group]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                yield f"{name} was {json.dumps(old.get(name))} and is now {json.dumps(new.get(name))}"


def _differences(manifest: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[str]:
    yield from differing_settings(manifest, description)
    old_files, new_files = ([_identity(file) for file in each["inputs"]] for each in (manifest, description))
    if old_files != new_files:
        yield f"its {len(old_files)} input files are not the {len(new_files)} given now"


def _identity(file: Mapping[str, Any]) -> tuple[str, str]:
    return file["format"], file["sha256"]


def describe_content(description: Mapping[str, Any]) -> dict[str, Any]:
    """Give what decides the words of a corpus, the files by their content, not by their names."""
    return {**description, "inputs": [_identity(file) for file in description["inputs"]]}


def clear_output(output: Path, *, parts_too: bool) -> None:
    """Remove what an unfinished run, or a corpus to be replaced, left behind; finished parts stay if wanted."""
    (output / MANIFEST).unlink(missing_ok=True)
    sync(output)
    for name in _OWN_NAMES:
        path = output / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if parts_too:
        shutil.rmtree(output / WORK / PARTS, ignore_errors=True)
