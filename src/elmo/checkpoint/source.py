"""Resolve a model's name to a file or folder: a path, a training run, an installed or official model, or a hub id.

Models that are not on this machine are downloaded; no model is opened here. The environment variable ELMO_MIRROR
replaces the base address of the four models that AI2 published. From the hub, only the files of a model are
downloaded, not training states or corpora in the same repository.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from elmo.checkpoint.folder import CARD_FILE, FILES
from elmo.checkpoint.location import HDF5_SUFFIXES, as_path, cache_folder
from elmo.errors import CheckpointError, first_line
from elmo.text.units import main_script

# The models included in the package, one folder each.
MODELS_FOLDER = Path(__file__).parent.parent / "models"
DEFAULT_NAME = "en-small"
DEFAULT_MODEL = MODELS_FOLDER / DEFAULT_NAME
MODELS_BY_SCRIPT = {"Han": "zh-small", "Latin": "en-small"}
_FILE_SUFFIXES = (*HDF5_SUFFIXES, ".zip", ".json", ".index")
# Names in the folder of a training run.
RUN_FILE, CHECKPOINTS = "run.json", "checkpoints"
_CHECKPOINT_NAME = re.compile(r"update-\d{8,}")
# Paths of the options and weights of the models that AI2 published, relative to the base address.
OFFICIAL = {
    alias: (f"{stem}/elmo_{stem}_options.json", f"{stem}/elmo_{stem}_weights.hdf5")
    for alias, stem in {
        "small": "2x1024_128_2048cnn_1xhighway",
        "medium": "2x2048_256_2048cnn_1xhighway",
        "original": "2x4096_512_2048cnn_2xhighway",
        "original-5.5b": "2x4096_512_2048cnn_2xhighway_5.5B",
    }.items()
}
BASE_ADDRESS = "https://allennlp.s3.amazonaws.com/models/elmo/"
# Matched against the whole path inside the repository.
MODEL_FILES = (
    *FILES, CARD_FILE,
    "*.hdf5", "vocab*.txt", "vocab*.txt.gz",  # bilm-tf and NLPL; their options are *.json
    "char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl", "classifier.pkl",  # ELMoForManyLangs
    "*.json",  # ELMoForManyLangs does not fix the name of its settings file
    "checkpoint", "*.index", "*.data-*-of-*",  # TensorFlow
)  # fmt: skip


def installed_models() -> dict[str, Path]:
    """Return the folders of the models included in the package, by name."""
    return {path.parent.name: path.parent for path in sorted(MODELS_FOLDER.glob("*/config.json"))}


def list_models() -> list[str]:
    """Return the names of the installed models, followed by those of the official models, which are downloaded."""
    return [*installed_models(), *OFFICIAL]


def choose_model(texts: Iterable[str]) -> str | None:
    """Return the installed model for the main script of the texts; None stands for the default model."""
    name = MODELS_BY_SCRIPT.get(main_script(texts) or "")
    return None if name == DEFAULT_NAME else name


def find_model(source: str | Path, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """Return the local path of a model; an official model or a hub id is downloaded first."""
    path, name, installed = as_path(source, "The model"), str(source), installed_models()
    is_local = path.exists() or path.with_name(f"{path.name}.index").exists()
    if revision is not None and (is_local or name in installed or name in OFFICIAL):
        raise CheckpointError(f"revision is {revision!r}, but {name!r} is not a hub model; leave it out.")
    if (path / RUN_FILE).is_file():
        if checkpoints := list_checkpoints(path):
            return checkpoints[-1]
        raise CheckpointError(f"The training run in {path} has no checkpoint yet; wait for the first one.")
    if is_local:
        return path
    if name in installed:
        return installed[name]
    if name in OFFICIAL:
        return fetch_official(name, local_files_only=local_files_only)
    is_hub_id = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) and not name.lower().endswith(_FILE_SUFFIXES)
    if isinstance(source, str) and is_hub_id and not Path(name.split("/")[0]).exists():
        try:
            return fetch_from_hub(name, revision=revision, local_files_only=local_files_only)
        except CheckpointError as error:
            raise CheckpointError(f"No local model was found at {name!r}. {error}") from error.__cause__
    raise CheckpointError(
        f"No model was found at {name!r}; give a folder, an .hdf5 or .zip file, a hub id such as 'name/model', "
        f"or one of {', '.join(list_models())}."
    )


def list_checkpoints(run: Path) -> list[Path]:
    """Return the finished checkpoints of a run, oldest first."""
    folder = run / CHECKPOINTS
    entries = folder.iterdir() if folder.is_dir() else []
    return sorted(entry for entry in entries if _CHECKPOINT_NAME.fullmatch(entry.name))


def checkpoint_folder(run: Path, num_updates: int) -> Path:
    """Return the folder of the checkpoint after `num_updates` updates."""
    return run / CHECKPOINTS / f"update-{num_updates:08d}"


# --- official models


def fetch_official(alias: str, *, local_files_only: bool = False) -> Path:
    """Download an official model unless it is cached, and return the folder of its two files."""
    from elmo.checkpoint.download import fetch_url  # here, because filelock loads slowly

    folder = f"official/{alias}"
    base = (os.environ.get("ELMO_MIRROR") or BASE_ADDRESS).rstrip("/") + "/"
    # Options first, so that a wrong address fails before the large download.
    for path in OFFICIAL[alias]:
        fetch_url(base + path, folder=folder, local_files_only=local_files_only)
    return cache_folder() / folder


def official_alias_of(url: str) -> str | None:
    """Return the alias of the official model at a public URL (its options, weights or TF-Hub page), or None."""
    if re.fullmatch(r"https?://(www\.)?tfhub\.dev/google/elmo/[123]/?(\?.*)?", url):
        return "original"  # the TensorFlow module has the weights of the original model
    is_published = re.match(r"https?://([\w.-]+\.)?amazonaws\.com/", url)  # the bucket has several addresses
    return next((alias for alias, paths in OFFICIAL.items() if is_published and url.endswith(paths)), None)


# --- the Hugging Face hub


def fetch_from_hub(repo_id: str, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """Download the model files of a hub repository, and return the folder in the hub's cache.

    Raises CheckpointError when the repository is not available.
    """
    from huggingface_hub import snapshot_download

    try:
        path = snapshot_download(
            repo_id,
            revision=revision,
            local_files_only=local_files_only,
            allow_patterns=list(MODEL_FILES),
            ignore_patterns="*/*",  # no subfolders: `*` also matches slashes
        )
    except Exception as error:  # network exceptions depend on the huggingface_hub version
        at = "" if revision is None else f" at revision {revision!r}"
        advice = "allow the download once" if local_files_only else "log in with `hf auth login` if it is private"
        raise CheckpointError(
            f"The hub repository {repo_id!r}{at} cannot be downloaded ({first_line(error.__cause__ or error)}); "
            f"check its name and the network, {advice}, or give a local folder."
        ) from error
    if not Path(path).is_dir():
        raise CheckpointError(
            f"The hub repository {repo_id!r} has no model files at its top level; expected config.json and "
            "weights.safetensors, or a published ELMo's files: check the name."
        )
    return Path(path)


def push_folder(folder: Path, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
    """Upload a model folder to a hub repository, which is created if necessary, and return the URL of the repository.

    Raises CheckpointError if the upload fails.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload an ELMo model")
    except Exception as error:  # see fetch_from_hub
        raise CheckpointError(
            f"The model cannot be uploaded to the hub repository {repo_id!r} ({first_line(error)}); check its name "
            "('owner/model') and the network, and log in with `hf auth login` or give a token with write access."
        ) from error
    return str(address)
