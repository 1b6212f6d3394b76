"""The folder a job writes to: whose it is, what it holds already, and what of it may be removed."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo.corpus.output_folder import differing_settings
from elmo.durable import list_asides, replace_file, sync
from elmo.errors import InputError
from elmo.jobs.manifest import MANIFEST, REJECTS, read_manifest
from elmo.jobs.part_record import WORK
from elmo.locking import take_lock

PLAN, LOCK = "plan.json", "lock"
_KEPT_IN_WORK = (PLAN, LOCK)


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Make the folder, refuse one with files of somebody else, and keep other runs out of it."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder to write the vectors to.")
    if output.is_dir():
        others = sorted(entry.name for entry in output.iterdir() if not _is_own(entry.name))
        if others:
            raise InputError(f"{output} holds other files ({', '.join(others[:3])}); give a new or empty folder.")
    is_new = not output.exists()
    work = output / WORK
    work.mkdir(parents=True, exist_ok=True)
    lock = take_lock(work / LOCK, f"Another run is writing to {output}; wait for it or give another folder.")
    try:
        yield
    finally:
        lock.release()
        # Only an unfinished job has something worth keeping.
        if (output / MANIFEST).exists() or not (work / PLAN).exists():
            shutil.rmtree(work, ignore_errors=True)
        if is_new and not any(output.iterdir()):
            output.rmdir()


def _is_own(name: str) -> bool:
    return name in (WORK, MANIFEST, REJECTS) or name.startswith(("part-", f".{MANIFEST}.", f".{REJECTS}."))


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
    for path in (*list_asides(output / MANIFEST), *list_asides(output / REJECTS)):
        path.unlink(missing_ok=True)
    if anew:
        (output / MANIFEST).unlink(missing_ok=True)  # first: no manifest without its files
        sync(output)
        (output / REJECTS).unlink(missing_ok=True)
        for path in output.glob("part-*"):
            path.unlink()
    for path in (output / WORK).iterdir():
        is_record = path.suffix == ".json" and path.name.startswith("part-")
        if path.name in _KEPT_IN_WORK or path.name.startswith("stdin") or (is_record and not anew):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    replace_file(output / WORK / PLAN, f"{json.dumps(description, indent=1)}\n".encode())
