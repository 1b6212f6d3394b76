"""Our own format, a folder: config.json, weights.safetensors, vocabulary.txt, characters.txt.

A model with a context layer has context.safetensors and context.txt besides, and is of version 2.

Reading is strict. Writing goes aside and is renamed, so a folder is whole or not there.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint, Weights
from elmo.checkpoint.context_layer import ContextLayer
from elmo.checkpoint.location import LONGEST_LIST_BYTES, Location, check_file, read_file, read_json
from elmo.checkpoint.storage import Storage, restore, storage_of, store
from elmo.config import ContextConfig, ModelConfig
from elmo.errors import CheckpointError
from elmo.files.durable import replace_file, writing_files
from elmo.text.vocabulary import format_lines, parse_lines

CONFIG_FILE, WEIGHTS_FILE = "config.json", "weights.safetensors"
VOCABULARY_FILE, CHARACTERS_FILE = "vocabulary.txt", "characters.txt"
COUNTS_FILE, CARD_FILE = "word_counts.txt", "README.md"
MAX_CARD_BYTES = 2**20
CONTEXT_FILE, CONTEXT_WORDS_FILE = "context.safetensors", "context.txt"
FILES = (
    CONFIG_FILE, WEIGHTS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, COUNTS_FILE, CONTEXT_FILE, CONTEXT_WORDS_FILE,
)  # fmt: skip
# A folder is of the lowest version that has all its parts, so that earlier programs read what they can.
FORMAT_NAME, FORMAT_VERSION, CONTEXT_VERSION = "modern-elmo", 1, 2


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
    if header.get("version") not in (FORMAT_VERSION, CONTEXT_VERSION):
        raise CheckpointError(
            f"{folder / CONFIG_FILE} says version {header.get('version')!r}; this program reads versions "
            f"{FORMAT_VERSION} and {CONTEXT_VERSION}, so update modern-elmo."
        )
    weights, weights_hash, storage = _read_weights(folder / WEIGHTS_FILE)
    if weights_hash != header.get("content_hash"):
        raise CheckpointError(
            f"{folder / CONFIG_FILE} and {WEIGHTS_FILE} are not of one save (content hashes "
            f"{header.get('content_hash')} and {weights_hash}); save or copy the model again."
        )
    return Checkpoint(
        config=_read_config(header, folder / CONFIG_FILE),
        weights=weights,
        vocabulary=_read_list(folder / VOCABULARY_FILE),
        characters=_read_list(folder / CHARACTERS_FILE),
        origin=_read_origin(header, folder / CONFIG_FILE),
        word_counts=_read_counts(folder / COUNTS_FILE),
        card=_read_card(folder / CARD_FILE),
        storage=storage,
        context=_read_context(folder, header.get("context")),
    )


def write_folder(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    storage: Storage = "float32",
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write a model folder; an existing one gets its model files replaced, other files (a README.md too) stay.

    `write_more` adds files of its own to a new folder before it is renamed into place.
    """
    with writing_model(folder, (*FILES, *card_names(checkpoint, folder))) as aside:
        _write_files(checkpoint, aside, storage)
        write_card(checkpoint, aside)
        if write_more is not None:
            assert not folder.exists()
            write_more(aside)


@contextmanager
def writing_model(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Give the folder to write a model's files to, which then becomes `folder` or brings it up to date."""
    try:
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(f"{folder} is a file; give a folder to save the model to.")
        with writing_files(folder, names) as aside:
            yield aside
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The model could not be saved to {folder}: {error}.") from error


def card_names(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Return the card's file name if it is to be written; a README.md that is already there is kept."""
    return (CARD_FILE,) if checkpoint.card is not None and not (folder / CARD_FILE).exists() else ()


def write_card(checkpoint: Checkpoint, folder: Path) -> None:
    """Write the model's card, if it has one."""
    if checkpoint.card is not None:
        (folder / CARD_FILE).write_bytes(checkpoint.card.encode("utf-8"))


def content_hash(weights: Weights) -> str:
    """Give the SHA-256 of all weights, by name, shape, type and bytes: the identity of a model."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_content_hash(folder: Path, found: str, context: ContextLayer | None = None) -> None:
    """Compare the hashes of what was read with the recorded ones, if a folder is in our format."""
    if not is_model_folder(folder):
        return
    header = read_json(folder / CONFIG_FILE)
    recorded = header.get("content_hash")
    if recorded != found:
        raise CheckpointError(
            f"{folder / WEIGHTS_FILE} is damaged: its weights have the content hash {found}, but {recorded} was "
            "recorded when they were saved; get or save the model again."
        )
    if context is not None and (now := context.content_hash()) != (then := header["context"]["content_hash"]):
        raise CheckpointError(
            f"{folder / CONTEXT_FILE} or {CONTEXT_WORDS_FILE} is damaged: the content hash is {now}, but {then} "
            "was recorded when they were saved; get or save the model again."
        )


def write_json(path: Path, value: object) -> None:
    """Write JSON aside, wait until it is on the disk, and put it in place."""
    replace_file(path, _format_json(value))


def _format_json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _read_config(header: Mapping[str, Any], path: Location) -> ModelConfig:
    if "model" not in header:
        raise CheckpointError(f"{path} has no 'model', the settings of the network; save or copy the model again.")
    try:
        return ModelConfig.from_dict(header["model"])
    except (OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} holds a setting that no model has: {error}.") from error


def _read_origin(header: Mapping[str, Any], path: Location) -> dict[str, str]:
    origin = header.get("origin", {})
    if not isinstance(origin, dict) or not all(isinstance(value, str) for value in origin.values()):
        raise CheckpointError(f"{path} has the origin {origin!r:.80}; an object of strings was expected.")
    return origin


def _read_context(folder: Location, header: Any) -> ContextLayer | None:
    if header is None:
        return None
    path = folder / CONFIG_FILE
    if not isinstance(header, dict) or set(header) != {"content_hash", "settings"}:
        raise CheckpointError(
            f"{path} has the context {header!r:.80}; its settings and content_hash were expected."
        )
    tensors, found_hash = _read_tensors(folder / CONTEXT_FILE)
    if found_hash != header["content_hash"]:
        raise CheckpointError(
            f"{path} and {CONTEXT_FILE} are not of one save (content hashes {header['content_hash']} and "
            f"{found_hash}); save or copy the model again."
        )
    words = _read_list(folder / CONTEXT_WORDS_FILE)
    if words is None:
        raise CheckpointError(f"{folder / CONTEXT_WORDS_FILE} is missing; save or copy the model again.")
    try:
        settings = ContextConfig.from_dict(header["settings"])
    except (OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} holds a setting that no model has: {error}.") from error
    return ContextLayer(settings, words, tensors)


def _read_weights(path: Location) -> tuple[dict[str, Tensor], str | None, Storage]:
    stored, content_hash = _read_tensors(path)
    return restore(stored), content_hash, storage_of(stored)


def _read_tensors(path: Location) -> tuple[dict[str, Tensor], str | None]:
    check_file(path)
    try:
        if isinstance(path, Path):
            with safe_open(path, framework="pt") as file:
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata: Mapping[str, str] = file.metadata() or {}
        else:
            content = read_file(path)
            weights = safetensors.torch.load(content)
            header_length = int.from_bytes(content[:8], "little")
            metadata = json.loads(content[8 : 8 + header_length]).get("__metadata__", {})
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file: {error}.") from error
    return weights, metadata.get("content_hash")


def _read_list(path: Location) -> tuple[str, ...] | None:
    if not path.is_file():
        return None
    try:
        return tuple(parse_lines(read_file(path, max_bytes=LONGEST_LIST_BYTES)))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text: {error}.") from error


def _read_counts(path: Location) -> tuple[int, ...] | None:
    lines = _read_list(path)
    if lines is None:
        return None
    if not all(line.isascii() and line.isdecimal() and len(line) < 19 for line in lines):
        raise CheckpointError(f"{path} is damaged: one whole number per line was expected; get the model again.")
    return tuple(map(int, lines))


def _read_card(path: Location) -> str | None:
    """Return the card; one that is no text of a usual size is not the model's."""
    if not path.is_file():
        return None
    content = read_file(path)
    if len(content) > MAX_CARD_BYTES:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _write_files(checkpoint: Checkpoint, folder: Path, storage: Storage) -> None:
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.weights.items()}
    stored = store(weights, storage)
    weights_hash = content_hash(restore(stored))  # of what a reader gets
    header: dict[str, Any] = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION if checkpoint.context is None else CONTEXT_VERSION,
        "content_hash": weights_hash,
        "origin": dict(checkpoint.origin),
        "model": checkpoint.config.to_dict(),
    }
    context = checkpoint.context
    if context is not None:
        header["context"] = {"content_hash": context.content_hash(), "settings": context.config.to_dict()}
    (folder / CONFIG_FILE).write_bytes(_format_json(header))
    _write_tensors(stored, folder / WEIGHTS_FILE, weights_hash)
    if context is not None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in context.tensors.items()}
        _write_tensors(tensors, folder / CONTEXT_FILE, context.content_hash())
        (folder / CONTEXT_WORDS_FILE).write_bytes(format_lines(context.words))
    if checkpoint.vocabulary is not None:
        (folder / VOCABULARY_FILE).write_bytes(format_lines(checkpoint.vocabulary))
    if checkpoint.characters is not None:
        (folder / CHARACTERS_FILE).write_bytes(format_lines(checkpoint.characters))
    if checkpoint.word_counts is not None:
        (folder / COUNTS_FILE).write_bytes(format_lines(map(str, checkpoint.word_counts)))


def _write_tensors(tensors: dict[str, Tensor], path: Path, content_hash: str) -> None:
    safetensors.torch.save_file(tensors, path, metadata={"content_hash": content_hash})
    shutil.copymode(path.with_name(CONFIG_FILE), path)  # it is written for the owner's eyes only
