"""A Hugging Face hub repository <-> a local model folder.

Only model files are transferred, in either direction: a training state or a corpus beside them is not.
"""

from collections.abc import Sequence
from pathlib import Path

from elmo.checkpoint.folder import CARD_FILE, FILES
from elmo.errors import CheckpointError, first_line

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
    if isinstance(error, errors.LocalEntryNotFoundError):
        if local_files_only:
            return (
                f"{name} is not (or not completely) in the cache and local_files_only forbids downloading it; "
                "allow the download once, or give a local folder."
            )
        return (
            f"{name} is not (or not completely) in the cache and the hub gave no usable answer "
            f"({first_line(error.__cause__ or error)}); check the network, or give a local folder."
        )
    reason = first_line(error)
    return f"{name} cannot be downloaded ({reason}); check the network and try again, or give a local folder."


def _explain_upload(folder: Path, repo_id: str, error: Exception) -> str:
    from huggingface_hub import errors

    response = error.response if isinstance(error, errors.HfHubHTTPError) else None
    status = None if response is None else response.status_code
    if isinstance(error, errors.HFValidationError):
        return f"{repo_id!r} is not a hub repository name; expected 'owner/model'."
    if status in (401, 403):
        return (
            f"The hub does not let you write to {repo_id!r} (HTTP {status}); log in with `hf auth login` or give "
            "a token with write access."
        )
    return (
        f"{folder} cannot be uploaded to the hub repository {repo_id!r} ({first_line(error)}); check the network "
        "and try again."
    )
