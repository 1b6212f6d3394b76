"""Our own format, a folder: config.json, weights.safetensors, vocabulary.txt, characters.txt.

Reading is strict. Writing goes aside and is renamed, so a folder is whole or not there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint, Weights
from elmo.checkpoint.location import Location
from elmo.config import ModelConfig
from elmo.errors import CheckpointError
from elmo.text.vocabulary import format_lines, parse_lines

CONFIG_FILE, WEIGHTS_FILE = "config.json", "weights.safetensors"
VOCABULARY_FILE, CHARACTERS_FILE = "vocabulary.txt", "characters.txt"
FORMAT_NAME, FORMAT_VERSION = "modern-elmo", 1


def is_model_folder(folder: Location) -> bool:
    """Tell whether a folder holds a model in our format."""
    return (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file()


def read_folder(folder: Location) -> Checkpoint:
    """Open a model folder; the weights are memory-mapped where the folder is on disk."""
    header = read_json(folder / CONFIG_FILE)
    if header.get("format") != FORMAT_NAME:
        raise CheckpointError(
            f"{folder / CONFIG_FILE} says format {header.get('format')!r}; {FORMAT_NAME!r} was expected."
        )
    if header.get("version") != FORMAT_VERSION:
        raise CheckpointError(
            f"{folder / CONFIG_FILE} says version {header.get('version')!r}; this program reads version "
            f"{FORMAT_VERSION}, so update modern-elmo."
        )
    weights, weights_hash = _read_weights(folder / WEIGHTS_FILE)
    if weights_hash != header.get("content_hash"):
        raise CheckpointError(
            f"{folder / CONFIG_FILE} and {WEIGHTS_FILE} are not of one save (content hashes "
            f"{header.get('content_hash')} and {weights_hash}); save or copy the model again."
        )
    return Checkpoint(
        config=ModelConfig.from_dict(header.get("model", {})),
        weights=weights,
        vocabulary=_read_list(folder / VOCABULARY_FILE),
        characters=_read_list(folder / CHARACTERS_FILE),
        origin=header.get("origin", {}),
    )


def write_folder(
    checkpoint: Checkpoint, folder: Path, *, write_more: Callable[[Path], None] | None = None
) -> None:
    """Write a model folder; an existing one gets its model files replaced, other files stay.

    `write_more` adds files of its own to a new folder before it is renamed into place.
    """
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; give a folder to save the model to.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.parent / f".{folder.name}.saving-{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        names = _write_files(checkpoint, aside)
        if write_more is not None:
            assert not folder.exists()
            write_more(aside)
        if folder.exists():
            for name in names:
                (aside / name).replace(folder / name)
            for name in {VOCABULARY_FILE, CHARACTERS_FILE} - set(names):
                (folder / name).unlink(missing_ok=True)
        else:
            aside.rename(folder)
        sync(folder.parent)
    except OSError as error:
        raise CheckpointError(f"The model could not be saved to {folder}: {error}.") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def content_hash(weights: Weights) -> str:
    """Give the SHA-256 of all weights, by name, shape, type and bytes: the identity of a model."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_json(path: Location) -> dict[str, Any]:
    """Read a JSON object, or say in one sentence why not."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} could not be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}); it may be cut off or another file.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; an object was expected.")
    return value


def write_json(path: Path, value: object) -> None:
    """Write JSON aside, wait until it is on the disk, and put it in place."""
    aside = path.with_name(f".{path.name}.saving-{os.getpid()}")
    aside.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    sync(aside)
    aside.replace(path)
    sync(path.parent)


def _read_weights(path: Location) -> tuple[dict[str, Tensor], str | None]:
    try:
        if isinstance(path, Path):
            with safe_open(path, framework="pt") as file:
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata: Mapping[str, str] = file.metadata() or {}
        else:
            content = path.read_bytes()
            weights = safetensors.torch.load(content)
            header_length = int.from_bytes(content[:8], "little")
            metadata = json.loads(content[8 : 8 + header_length]).get("__metadata__", {})
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file: {error}.") from error
    return weights, metadata.get("content_hash")


def _read_list(path: Location) -> tuple[str, ...] | None:
    if not path.is_file():
        return None
    try:
        return tuple(parse_lines(path.read_bytes()))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text: {error}.") from error


def _write_files(checkpoint: Checkpoint, folder: Path) -> list[str]:
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.weights.items()}
    weights_hash = content_hash(weights)
    header = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "content_hash": weights_hash,
        "origin": dict(checkpoint.origin),
        "model": checkpoint.config.to_dict(),
    }
    contents = {CONFIG_FILE: (json.dumps(header, indent=2, ensure_ascii=False) + "\n").encode("utf-8")}
    if checkpoint.vocabulary is not None:
        contents[VOCABULARY_FILE] = format_lines(checkpoint.vocabulary)
    if checkpoint.characters is not None:
        contents[CHARACTERS_FILE] = format_lines(checkpoint.characters)
    safetensors.torch.save_file(weights, folder / WEIGHTS_FILE, metadata={"content_hash": weights_hash})
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    names = [WEIGHTS_FILE, *contents]
    for name in [*names, "."]:
        sync(folder / name)
    return names


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no way to sync a folder, and needs none for a rename
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
