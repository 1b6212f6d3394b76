"""The folder a job writes to: whose it is, what it holds already, and what of it may be removed."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo.corpus.output_folder import differing_settings
from elmo.errors import InputError
from elmo.files.durable import is_leftover, remove, remove_leftovers, replace_file, sync, take_lock
from elmo.vectors.manifest import MANIFEST, REJECTS, read_manifest
from elmo.vectors.part_record import WORK, recorded_files

PLAN, LOCK = "plan.json", "lock"
REPLACED = "replaced.json"  # the files of an earlier job that are being removed
_KEPT_IN_WORK = (PLAN, LOCK, REPLACED)


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Make the folder, refuse one with files of somebody else, and keep other runs out of it."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder to write the vectors to.")
    if others := _list_foreign(output):
        raise InputError(f"{output} holds other files ({', '.join(others[:3])}); give a new or empty folder.")
    is_new = not output.exists()
    work = output / WORK
    work.mkdir(parents=True, exist_ok=True)
    lock = take_lock(work / LOCK, f"Another run is writing to {output}; wait for it or give another folder.")
    try:
        remove_leftovers(output)
        yield
    finally:
        lock.release()
        # Only an unfinished job has something worth keeping.
        if (output / MANIFEST).exists() or not ((work / PLAN).exists() or (work / REPLACED).exists()):
            shutil.rmtree(work, ignore_errors=True)
        if is_new and not any(output.iterdir()):
            output.rmdir()


def _list_foreign(output: Path) -> list[str]:
    """Return the names in a folder that no job of ours wrote; its manifest and its records say what it wrote."""
    if not output.is_dir():
        return []
    own = {WORK, *_list_own(output)}
    return sorted(
        entry.name for entry in output.iterdir() if entry.name not in own and not is_leftover(entry.name)
    )


def _list_own(output: Path) -> set[str]:
    """Return the names of the files that a job wrote to a folder, besides its work folder."""
    own = recorded_files(output)
    manifest = read_manifest(output)
    if manifest is not None:
        own |= {MANIFEST, *(file.name for file in manifest.files())}
    elif (output / WORK / PLAN).is_file():
        own.add(REJECTS)  # written just before the manifest
    with suppress(OSError, ValueError, TypeError):
        own |= set(json.loads((output / WORK / REPLACED).read_bytes()))
    return {name for name in own if Path(name).name == name}


def find_plan(output: Path) -> Mapping[str, Any] | None:
    """Give the description of the job that the folder was begun for, or None."""
    manifest = read_manifest(output)
    if manifest is not None:
        return manifest.values
    try:
        plan = json.loads((output / WORK / PLAN).read_bytes())
    except (OSError, ValueError):
        return None
    return plan if isinstance(plan, dict) else None


def check_same_job(output: Path, description: Mapping[str, Any]) -> None:
    """Raise InputError if the folder was begun for another job, saying what differs."""
    plan = find_plan(output)
    if plan is not None and (found := list(_differences(plan, description))):
        raise InputError(
            f"{output} holds vectors that were made otherwise ({'; '.join(found)}); give another folder, or "
            "--force to replace them."
        )


def _differences(plan: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[str]:
    yield from differing_settings(plan, description)
    for name, value in plan["model"].items():
        if value != description["model"].get(name):
            yield f"the model's {name} was {value} and is now {description['model'].get(name)}"
    old_files, new_files = ([_identify(file) for file in each["inputs"]] for each in (plan, description))
    if old_files != new_files:
        yield f"its {len(old_files)} input files are not the {len(new_files)} given now"


def _identify(file: Mapping[str, Any]) -> tuple[str, str]:
    return file["format"], file["sha256_of_ends"]


def describe_content(description: Mapping[str, Any]) -> dict[str, Any]:
    """Give what decides the vectors, the files by what they hold, not by their names."""
    return {**description, "inputs": [_identify(file) for file in description["inputs"]]}


def begin(output: Path, description: Mapping[str, Any], *, anew: bool) -> None:
    """Write down which job this is, and remove what nobody needs: everything, or what killed runs left behind."""
    replaced = output / WORK / REPLACED
    if anew:
        # A run killed while it removes them must still know them for its own.
        replace_file(replaced, json.dumps(sorted(_list_own(output))).encode())
        (output / MANIFEST).unlink(missing_ok=True)  # first: no manifest without its files
        sync(output)
    if replaced.exists():
        for name in _list_own(output):
            (output / name).unlink(missing_ok=True)
        sync(output)
    for path in (output / WORK).iterdir():
        is_record = path.suffix == ".json" and path.name.startswith("part-")
        if path.name in _KEPT_IN_WORK or path.name.startswith("stdin") or (is_record and not replaced.exists()):
            continue
        remove(path)
    replace_file(output / WORK / PLAN, f"{json.dumps(description, indent=1)}\n".encode())
    replaced.unlink(missing_ok=True)
