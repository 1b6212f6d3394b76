"""The name of a model -> the folder or file that holds it: a path, a training run, an installed or official model,
or a hub id. Nothing is opened here; models that are not on this machine are downloaded first.

The environment variable ELMO_MIRROR replaces the address of the four models that AI2 published. To and from the
hub only model files are transferred: a training state or a corpus beside them is not.
"""

import functools
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.checkpoint.folder import CARD_FILE, FILES
from elmo.checkpoint.location import HDF5_SUFFIXES, as_path, cache_folder, read_json, unreadable
from elmo.errors import CheckpointError, first_line
from elmo.files.durable import current_folder
from elmo.text.units import main_script

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
BASE_ADDRESS = "https://allennlp.s3.amazonaws.com/models/elmo/"
# The forms in which the same storage bucket has been quoted over the years.
_PUBLISHED_ADDRESS = re.compile(
    r"https?://(?:allennlp\.s3(?:[.-]us-west-2)?\.amazonaws\.com|s3(?:[.-]us-west-2)?\.amazonaws\.com/allennlp)"
    r"/models/elmo/(?P<path>[^?#]+)"
)
_TFHUB_ADDRESS = re.compile(r"https?://(?:www\.)?tfhub\.dev/google/elmo/[123]/?(?:\?.*)?")

# Matched against the whole path inside the repository.
MODEL_FILES = (
    *FILES, CARD_FILE,
    "*.hdf5", "vocab*.txt", "vocab*.txt.gz",  # bilm-tf and NLPL; their options are *.json
    "char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl", "classifier.pkl",  # ELMoForManyLangs
    "*.json",  # the latter's settings file has any name
    "checkpoint", "*.index", "*.data-*-of-*",  # TensorFlow
)  # fmt: skip
# A model is at the top of its repository; `*` in the patterns above would cross folders.
_NESTED_FILES = ("*/*",)


@functools.cache
def installed_models() -> dict[str, Path]:
    """Return the folders of the installed models by name: those of the package and of other distributions.

    An entry point whose package is missing or damaged is left out.
    """
    from importlib.metadata import entry_points  # here, because it takes as long to import as this module

    folders = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            spec = importlib.util.find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        for folder in spec.submodule_search_locations or () if spec is not None else ():
            folders[entry.name] = Path(folder)
    embedded = sorted(MODELS_FOLDER.iterdir()) if MODELS_FOLDER.is_dir() else []
    return {**folders, **{folder.name: folder for folder in embedded if (folder / "config.json").is_file()}}


def list_models() -> list[str]:
    """Return the names of models that can be opened: those that are installed, then those that are downloaded."""
    return [*installed_models(), *OFFICIAL]


def models_by_script() -> dict[str, str]:
    """Return the name of an installed model for each script that one was made for: those of the packaged ones."""
    named = {"Han": "zh-small", "Latin": "en-small"}
    return {script: name for script, name in named.items() if _is_packaged(name) or name in installed_models()}


def _is_packaged(name: str) -> bool:
    return (MODELS_FOLDER / name / "config.json").is_file()


def choose_model(texts: Iterable[str]) -> str | None:
    """Return the installed model for the main script of some texts; None if that is the default one."""
    script = main_script(texts)
    name = None if script is None else models_by_script().get(script)
    return None if name == DEFAULT_NAME else name


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
    """Return the checkpoint that is recorded as best (by validation perplexity), or the last if none is."""
    checkpoints = list_checkpoints(run)
    if (best := read_best(run)) is not None and run / CHECKPOINTS / best[1] in checkpoints:
        return run / CHECKPOINTS / best[1]
    if not checkpoints:
        raise CheckpointError(f"The training run in {run} has no checkpoint yet; wait for the first one.")
    return checkpoints[-1]


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


# --- official models


@dataclass(frozen=True)
class OfficialModel:
    """One published model; `stem` names its folder on the server and its files."""

    alias: str
    stem: str

    @property
    def options_path(self) -> str:
        """Where the options file is below the base address."""
        return f"{self.stem}/elmo_{self.stem}_options.json"

    @property
    def weights_path(self) -> str:
        """Where the weights file is below the base address."""
        return f"{self.stem}/elmo_{self.stem}_weights.hdf5"


_STEMS = {
    "small": "2x1024_128_2048cnn_1xhighway",
    "medium": "2x2048_256_2048cnn_1xhighway",
    "original": "2x4096_512_2048cnn_2xhighway",
    "original-5.5b": "2x4096_512_2048cnn_2xhighway_5.5B",
}
OFFICIAL = {alias: OfficialModel(alias, stem) for alias, stem in _STEMS.items()}


def fetch_official(alias: str, *, cache: Path | None = None, local_files_only: bool = False) -> Path:
    """Download an official model unless the cache has it, and return the folder with its two files."""
    from elmo.checkpoint.download import fetch_url  # here, because filelock loads slowly

    model, cache = OFFICIAL[alias], cache_folder() if cache is None else cache
    base = (os.environ.get("ELMO_MIRROR") or BASE_ADDRESS).rstrip("/") + "/"
    # The small file first: a wrong address shows before hundreds of megabytes are on their way.
    for path, check in ((model.options_path, check_json), (model.weights_path, check_hdf5)):
        folder = f"official/{alias}"
        fetch_url(base + path, cache=cache, folder=folder, local_files_only=local_files_only, check=check)
    return cache / "official" / alias


def official_alias_of(url: str) -> str | None:
    """Return the official model that a public address of its options, weights or TF-Hub page belongs to."""
    if _TFHUB_ADDRESS.fullmatch(url):
        return "original"  # the TensorFlow module has the weights of the original model
    if published := _PUBLISHED_ADDRESS.fullmatch(url):
        for model in OFFICIAL.values():
            if published["path"] in (model.options_path, model.weights_path):
                return model.alias
    return None


def check_hdf5(path: Path) -> None:
    """Raise CheckpointError unless `path` is an HDF5 file."""
    import h5py

    if not h5py.is_hdf5(path):
        raise CheckpointError(f"it is not an HDF5 file but begins with {_beginning(path)!r}")


def check_json(path: Path) -> None:
    """Raise CheckpointError unless `path` holds one JSON object."""
    try:
        if isinstance(json.loads(path.read_bytes()), dict):
            return
    except (ValueError, RecursionError):
        pass
    raise CheckpointError(f"it is not a JSON object but begins with {_beginning(path)!r}")


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(40).decode("utf-8", errors="replace")


# --- the Hugging Face hub


def fetch_from_hub(
    repo_id: str,
    *,
    revision: str | None = None,
    local_files_only: bool = False,
    cache: Path | None = None,
    files: Sequence[str] = MODEL_FILES,
) -> Path:
    """Download the model files of a hub repository, or others by pattern, and return the local folder.

    They go into the hub's own cache, shared with other libraries, or with `cache` into its folder `hub`.
    Raises CheckpointError when the repository is not available.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = Path(
            snapshot_download(
                repo_id,
                revision=revision,
                cache_dir=None if cache is None else cache / "hub",
                local_files_only=local_files_only,
                allow_patterns=list(files),
                ignore_patterns=list(_NESTED_FILES),
            )
        )
    except Exception as error:  # its transport errors come from another library in each of its versions
        raise CheckpointError(_explain_download(repo_id, revision, local_files_only, error)) from error
    if not folder.is_dir():
        raise CheckpointError(
            f"The hub repository {repo_id!r} holds no model file at its top; expected config.json and "
            "weights.safetensors, or a published ELMo's files: check the name."
        )
    return folder


def push_folder(
    folder: Path,
    repo_id: str,
    *,
    private: bool = False,
    token: str | None = None,
    commit_message: str = "Upload an ELMo model",
) -> str:
    """Upload a model folder's files to a hub repository, created if necessary, and return its address.

    Raises CheckpointError when the folder holds no model or the hub refuses it.
    """
    from huggingface_hub import HfApi

    folder = current_folder(folder)
    if not any(path.match(pattern) for path in folder.glob("*") for pattern in MODEL_FILES):
        raise CheckpointError(f"{folder} holds no model file to upload; give a folder made by save_pretrained.")
    api = HfApi(token=token)
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            allow_patterns=list(MODEL_FILES),
            ignore_patterns=list(_NESTED_FILES),
        )
    except Exception as error:  # see fetch_from_hub
        raise CheckpointError(_explain_upload(folder, repo_id, error)) from error
    return str(address)


def _explain_download(repo_id: str, revision: str | None, local_files_only: bool, error: Exception) -> str:
    from huggingface_hub import errors

    name = f"The hub repository {repo_id!r}"
    if isinstance(error, errors.HFValidationError):
        return f"{repo_id!r} is neither a local folder nor a hub repository name such as 'owner/model'."
    if isinstance(error, errors.GatedRepoError):  # a subclass of RepositoryNotFoundError
        return f"{name} is gated; ask for access on its page, then log in with `hf auth login`."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{name} does not exist or is private; check the name, or log in with `hf auth login`."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{name} has no revision {revision!r}; check the name of the branch, tag or commit."
    if local_files_only and isinstance(error, errors.LocalEntryNotFoundError):
        return (
            f"{name} is not (or not completely) in the cache and local_files_only forbids downloading it; allow "
            "the download once, or give a local folder."
        )
    reason = first_line(error.__cause__ or error)
    return f"{name} cannot be downloaded ({reason}); check the network and try again, or give a local folder."


def _explain_upload(folder: Path, repo_id: str, error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            f"The hub does not let you write to {repo_id!r} (HTTP {status}); log in with `hf auth login` or give "
            "a token with write access."
        )
    return (
        f"{folder} cannot be uploaded to the hub repository {repo_id!r} ({first_line(error)}); check its name "
        "('owner/model') and the network, and try again."
    )
