"""A Hugging Face hub repository <-> a local model folder.

Only model files travel, in either direction: a training state or a corpus left beside them does not.
What the files mean is decided where the folder is opened.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from elmo.errors import CheckpointError, first_line

# Matched against the whole path inside the repository.
MODEL_FILES = (
    "config.json", "weights.safetensors", "vocabulary.txt", "characters.txt", "word_counts.txt",  # ours
    "README.md", "context.safetensors", "context.txt",
    "*.hdf5", "vocab*.txt", "vocab*.txt.gz",  # bilm-tf and NLPL; their options are *.json
    "char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl", "classifier.pkl",  # ELMoForManyLangs
    "*.json",  # the latter's settings file has any name
    "checkpoint", "*.index", "*.data-*-of-*",  # TensorFlow
)  # fmt: skip
# A model lies at the top of its repository; `*` in the patterns above would cross folders.
NESTED_FILES = ("*/*",)


def fetch_from_hub(
    repo_id: str,
    *,
    revision: str | None = None,
    local_files_only: bool = False,
    cache: Path | None = None,
    files: Sequence[str] = MODEL_FILES,
) -> Path:
    """Download the model files of a hub repository, or others by pattern; returns the local folder.

    Without `cache` they go into the hub's own cache, shared with other libraries, otherwise into its
    folder `hub`. Raises CheckpointError when the repository cannot be had.
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
                ignore_patterns=list(NESTED_FILES),
            )
        )
    except Exception as error:  # its transport errors come from another library in each of its versions
        _raise_download_error(repo_id, revision, local_files_only, error)
    if not folder.is_dir():
        raise CheckpointError(
            f"The hub repository {repo_id!r} holds no model file at its top; expected config.json and"
            " weights.safetensors, or a published ELMo's files: check the name."
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
    """Upload a model folder's files to a hub repository, made if there is none; returns its address.

    Raises CheckpointError when the folder holds no model or the hub refuses it.
    """
    from huggingface_hub import HfApi

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
            ignore_patterns=list(NESTED_FILES),
        )
    except Exception as error:  # see fetch_from_hub
        _raise_upload_error(folder, repo_id, error)
    return str(address)


def _raise_download_error(
    repo_id: str, revision: str | None, local_files_only: bool, error: Exception
) -> NoReturn:
    from huggingface_hub import errors

    name = f"The hub repository {repo_id!r}"
    if isinstance(error, errors.HFValidationError):
        message = f"{repo_id!r} is neither a local folder nor a hub repository name such as 'owner/model'."
    elif isinstance(error, errors.GatedRepoError):  # a kind of RepositoryNotFoundError: asked first
        message = f"{name} is gated; ask for access on its page, then log in with `hf auth login`."
    elif isinstance(error, errors.RepositoryNotFoundError):
        message = f"{name} does not exist or is private; check the name, or log in with `hf auth login`."
    elif isinstance(error, errors.RevisionNotFoundError):
        message = f"{name} has no revision {revision!r}; check the name of the branch, tag or commit."
    elif isinstance(error, errors.LocalEntryNotFoundError) and local_files_only:
        message = (
            f"{name} is not (or not wholly) in the cache and local_files_only forbids to download it;"
            " allow the download once, or give a local folder."
        )
    elif isinstance(error, errors.LocalEntryNotFoundError):
        message = (
            f"{name} is not (or not wholly) in the cache and the hub gave no usable answer"
            f" ({first_line(error.__cause__ or error)}); check the network, or give a local folder."
        )
    else:
        message = (
            f"{name} cannot be downloaded ({first_line(error)}); check the network and try again, or give"
            " a local folder."
        )
    raise CheckpointError(message) from error


def _raise_upload_error(folder: Path, repo_id: str, error: Exception) -> NoReturn:
    from huggingface_hub import errors

    status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
    if isinstance(error, errors.HFValidationError):
        message = f"{repo_id!r} is not a hub repository name; expected 'owner/model'."
    elif status in (401, 403):
        message = (
            f"The hub does not let you write to {repo_id!r} (HTTP {status}); log in with `hf auth login` or"
            " give a token that may write."
        )
    else:
        message = (
            f"{folder} cannot be uploaded to the hub repository {repo_id!r} ({first_line(error)}); check the"
            " network and try again."
        )
    raise CheckpointError(message) from error
