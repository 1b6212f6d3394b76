"""The name of a model -> the folder or file that holds it: a path, a training run, an installed or official model,
or a hub id. Nothing is opened here; models that are not on this machine are downloaded first.
"""

import functools
import importlib.util
import re
from importlib.metadata import entry_points
from pathlib import Path

from elmo.checkpoint.hub import fetch_from_hub
from elmo.checkpoint.location import HDF5_SUFFIXES, as_path, read_json, unreadable
from elmo.checkpoint.official import OFFICIAL, fetch_official
from elmo.errors import CheckpointError

# The models that are part of the package, each a folder of its name; other distributions add theirs by this group
# of entry points, whose values are packages with the files of a model.
MODELS_FOLDER = Path(__file__).parent.parent / "models"
ENTRY_POINTS = "elmo.models"
DEFAULT_NAME = "en-small"
DEFAULT_MODEL = MODELS_FOLDER / DEFAULT_NAME
_FILE_SUFFIXES = (*HDF5_SUFFIXES, ".zip", ".json", ".index")
# The folder of a training run.
RUN_FILE, BEST_FILE, CHECKPOINTS = "run.json", "best.json", "checkpoints"
_CHECKPOINT_NAME = re.compile(r"update-\d{8,}")


@functools.cache
def installed_models() -> dict[str, Path]:
    """Return the folders of the installed models by name: those of the package and of other distributions.

    An entry point whose package is missing or damaged is left out.
    """
    found = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            spec = importlib.util.find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        for folder in spec.submodule_search_locations or () if spec is not None else ():
            found[entry.name] = Path(folder)
    embedded = sorted(MODELS_FOLDER.iterdir()) if MODELS_FOLDER.is_dir() else []
    return {**found, **{folder.name: folder for folder in embedded if (folder / "config.json").is_file()}}


def models_by_script() -> dict[str, str]:
    """Return the name of an installed model for each script that one was made for: those of the packaged ones."""
    named = {"Han": "zh-small", "Latin": "en-small"}
    return {script: name for script, name in named.items() if name in installed_models()}


def find_model(source: str | Path, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """Return where a model is on disk, downloaded first if it is named by an alias or a hub id."""
    path = as_path(source, "The model")
    name = str(source)
    try:
        is_run = (path / RUN_FILE).is_file()
        is_local = path.exists() or path.parent.joinpath(f"{path.name}.index").exists()
    except OSError as error:
        raise unreadable(path, error) from error
    if revision is not None and (is_local or name in installed_models() or name in OFFICIAL):
        raise CheckpointError(
            f"revision was given, but {name!r} is not a model of the hub, which alone has revisions; leave it out."
        )
    if is_local:
        return best_checkpoint(path) if is_run else path
    if name in installed_models():
        return installed_models()[name]
    if name in OFFICIAL:
        return fetch_official(name, local_files_only=local_files_only)
    if isinstance(source, str) and _may_be_on_hub(name):
        try:
            return fetch_from_hub(name, revision=revision, local_files_only=local_files_only)
        except CheckpointError as error:
            message = str(error)
            raise CheckpointError(
                f"There is no local file or folder {name!r}, and {message[0].lower()}{message[1:]}"
            ) from error.__cause__
    raise CheckpointError(
        f"No model was found at {name!r}; give a folder, an .hdf5 or .zip file, a hub id such as 'name/model', "
        f"or one of {', '.join([*installed_models(), *OFFICIAL])}."
    )


def _may_be_on_hub(name: str) -> bool:
    """Return whether a name is a hub id rather than the misspelled path of a file."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) or name.lower().endswith(_FILE_SUFFIXES):
        return False
    return not Path(name.split("/")[0]).exists()


def best_checkpoint(run: Path) -> Path:
    """Return the checkpoint of a run with the lowest validation perplexity, or the last without validation."""
    found = list_checkpoints(run)
    if (best := read_best(run)) is not None and run / CHECKPOINTS / best[1] in found:
        return run / CHECKPOINTS / best[1]
    if not found:
        raise CheckpointError(f"The training run in {run} has no checkpoint yet; wait for the first one.")
    return found[-1]


def list_checkpoints(run: Path) -> list[Path]:
    """Return the finished checkpoints of a run, oldest first."""
    folder = run / CHECKPOINTS
    entries = folder.iterdir() if folder.is_dir() else []
    return sorted(entry for entry in entries if _CHECKPOINT_NAME.fullmatch(entry.name))


def checkpoint_folder(run: Path, num_updates: int) -> Path:
    """Return where the checkpoint after `num_updates` updates is stored."""
    return run / CHECKPOINTS / f"update-{num_updates:08d}"


def read_best(run: Path) -> tuple[float, str] | None:
    """Return the perplexity and name of the best checkpoint that is recorded, or None."""
    if not (run / BEST_FILE).is_file():
        return None
    best = read_json(run / BEST_FILE)
    perplexity, name = best.get("perplexity"), best.get("checkpoint")
    if not isinstance(perplexity, int | float) or not isinstance(name, str):
        raise CheckpointError(
            f"{run / BEST_FILE} is damaged: a perplexity and the name of a checkpoint were expected; delete it, "
            f"and elmo train --resume {run} writes it again."
        )
    return float(perplexity), name
