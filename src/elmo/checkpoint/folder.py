"""Our own format, a folder: config.json, weights.safetensors, vocabulary.txt, characters.txt, word_counts.txt.

A model with a context layer also has context.safetensors and context.txt, and is of version 2. One that reads
some units as others lists them in aliases.txt, a pair per line; then, or with a tokenization of its own, it is of
version 3, because earlier programs would read its text wrongly. Reading is strict.
Writing goes aside and is renamed, so a folder is complete or absent.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint, ContextLayer, Weights, content_hash, quantize
from elmo.checkpoint.location import Location, as_path, check_file, parent_of, read_file, read_json, read_lines
from elmo.config import ContextConfig, ModelConfig, TokenizationConfig
from elmo.errors import CheckpointError
from elmo.files.durable import replace_file, writing_files
from elmo.text.vocabulary import format_lines

CONFIG_FILE, WEIGHTS_FILE = "config.json", "weights.safetensors"
VOCABULARY_FILE, CHARACTERS_FILE = "vocabulary.txt", "characters.txt"
COUNTS_FILE, CARD_FILE, ALIASES_FILE = "word_counts.txt", "README.md", "aliases.txt"
CONTEXT_FILE, CONTEXT_WORDS_FILE = "context.safetensors", "context.txt"
FILES = (
    CONFIG_FILE, WEIGHTS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, COUNTS_FILE, CONTEXT_FILE, CONTEXT_WORDS_FILE,
    ALIASES_FILE,
)  # fmt: skip
MAX_CARD_BYTES = 2**20
# A folder has the lowest version that covers all its parts, so that earlier programs read what they can.
FORMAT_NAME, FORMAT_VERSION, CONTEXT_VERSION, TOKENIZATION_VERSION = "modern-elmo", 1, 2, 3
_VERSIONS = (FORMAT_VERSION, CONTEXT_VERSION, TOKENIZATION_VERSION)
# How weights are stored: as they are, in float16, or "compact": float16 with the softmax in 8 bits.
Storage: TypeAlias = Literal["float32", "float16", "compact"]
_SOFTMAX_WEIGHT = "softmax.weight"
_SCALE = ".scale"  # ends the name of the tensor with the scale of each row of an 8-bit matrix
_SMALLEST_SCALE = 1e-30


def is_model_folder(folder: Location) -> bool:
    """Return whether a folder holds a model in our format."""
    return (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file()


def read_config(folder: Location) -> tuple[dict[str, Any], ModelConfig]:
    """Return the content of a model folder's config.json, and the configuration of the model in it."""
    path = folder / CONFIG_FILE
    header = read_json(path)
    if header.get("format") != FORMAT_NAME:
        raise CheckpointError(f"{path} has the format {header.get('format')!r}; {FORMAT_NAME!r} was expected.")
    if header.get("version") not in _VERSIONS:
        raise CheckpointError(
            f"{path} has the version {header.get('version')!r}; this program reads versions {_VERSIONS[0]} to "
            f"{_VERSIONS[-1]}, so update modern-elmo."
        )
    if "model" not in header:
        raise CheckpointError(f"{path} has no 'model', the settings of the network; save or copy the model again.")
    try:
        return header, ModelConfig.from_dict(header["model"])
    except (OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} has an impossible setting: {error}.") from error


def read_folder(folder: Location) -> Checkpoint:
    """Open a model folder; the weights are memory-mapped if the folder is on disk."""
    path = folder / CONFIG_FILE
    header, config = read_config(folder)
    stored = _read_tensors(folder / WEIGHTS_FILE, header.get("content_hash"))
    kinds = {tensor.dtype for tensor in stored.values()}
    origin = header.get("origin", {})
    if not isinstance(origin, dict) or not all(isinstance(value, str) for value in origin.values()):
        raise CheckpointError(f"{path} has the origin {origin!r:.80}; an object of strings was expected.")
    try:
        context = _read_context(folder, header.get("context"))
    except (OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} has an impossible setting: {error}.") from error
    return Checkpoint(
        config=config,
        weights=restore(stored),
        vocabulary=_read_list(folder / VOCABULARY_FILE),
        characters=_read_list(folder / CHARACTERS_FILE),
        origin=origin,
        word_counts=_read_counts(folder / COUNTS_FILE),
        card=read_card(folder / CARD_FILE),
        storage="compact" if torch.int8 in kinds else "float16" if torch.float16 in kinds else "float32",
        context=context,
        aliases=_read_aliases(folder / ALIASES_FILE),
    )


def write_folder(
    checkpoint: Checkpoint,
    folder: str | Path,
    *,
    storage: Storage = "float32",
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write a model folder; an existing one gets its model files replaced, other files (also a README.md) stay.

    `write_more` adds files of its own to a new folder before it is renamed into place.
    """
    folder = as_path(folder, "The folder to save to")
    with writing_model(checkpoint, folder, FILES) as aside:
        _write_files(checkpoint, aside, storage)
        if write_more is not None:
            assert not folder.exists()
            write_more(aside)


@contextmanager
def writing_model(checkpoint: Checkpoint, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield a folder to write a model's files `names` to; at the end it becomes `folder` or updates it.

    The model's card is written too, unless `folder` has a README.md already.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(f"{folder} is a file; give a folder to save the model to.")
        card = None if (folder / CARD_FILE).exists() else checkpoint.card
        with writing_files(folder, names if card is None else (*names, CARD_FILE)) as aside:
            if card is not None:
                (aside / CARD_FILE).write_bytes(card.encode("utf-8"))
            yield aside
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The model could not be saved to {folder}: {error}.") from error


def check_content_hash(folder: Path, found: str, context: ContextLayer | None = None) -> None:
    """Compare the hashes of what was read with the recorded ones, if a folder is in our format."""
    if not is_model_folder(folder):
        return
    header = read_json(folder / CONFIG_FILE)
    recorded = header.get("content_hash")
    if recorded != found:
        raise CheckpointError(
            f"{folder / WEIGHTS_FILE} is damaged (checksum mismatch): its content hash is {found}, but {recorded} "
            "was recorded when it was saved; get or save the model again."
        )
    if context is not None and (now := context.content_hash()) != (then := header["context"]["content_hash"]):
        raise CheckpointError(
            f"{folder / CONTEXT_FILE} or {CONTEXT_WORDS_FILE} is damaged (checksum mismatch): the content hash is "
            f"{now}, but {then} was recorded when they were saved; get or save the model again."
        )


def write_json(path: Path, value: object) -> None:
    """Write a JSON file durably."""
    replace_file(path, f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode())


def _read_context(folder: Location, header: Any) -> ContextLayer | None:
    if header is None:
        return None
    path = folder / CONFIG_FILE
    if not isinstance(header, dict) or set(header) != {"content_hash", "settings"}:
        raise CheckpointError(
            f"{path} has the context {header!r:.80}; its settings and content_hash were expected."
        )
    tensors = _read_tensors(folder / CONTEXT_FILE, header["content_hash"])
    words = _read_list(folder / CONTEXT_WORDS_FILE)
    if words is None:
        raise CheckpointError(f"{folder / CONTEXT_WORDS_FILE} is missing; save or copy the model again.")
    return ContextLayer(ContextConfig.from_dict(header["settings"]), words, tensors)


def _read_tensors(path: Location, expected_hash: object) -> dict[str, Tensor]:
    check_file(path)
    try:
        if isinstance(path, Path):
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata: Mapping[str, str] = file.metadata() or {}
        else:
            content = read_file(path)
            tensors = safetensors.torch.load(content)
            header_length = int.from_bytes(content[:8], "little")
            metadata = json.loads(content[8 : 8 + header_length]).get("__metadata__", {})
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a complete safetensors file: {error}.") from error
    if metadata.get("content_hash") != expected_hash:
        raise CheckpointError(
            f"{parent_of(path) / CONFIG_FILE} and {path.name} come from different saves (content hashes "
            f"{expected_hash} and {metadata.get('content_hash')}); save or copy the model again."
        )
    return tensors


def _read_list(path: Location) -> tuple[str, ...] | None:
    return tuple(read_lines(path)) if path.is_file() else None


def _read_counts(path: Location) -> tuple[int, ...] | None:
    lines = _read_list(path)
    if lines is None:
        return None
    if not all(line.isascii() and line.isdecimal() and len(line) < 19 for line in lines):
        raise CheckpointError(f"{path} is damaged: one whole number per line was expected; get the model again.")
    return tuple(map(int, lines))


def _read_aliases(path: Location) -> dict[str, str]:
    """Return the pairs of a list whose lines are a unit, a space and the unit to read instead."""
    pairs = [line.split(" ") for line in _read_list(path) or ()]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise CheckpointError(
            f"{path} is damaged: a unit, a space and the unit to read instead were expected on each line; get the "
            "model again."
        )
    return dict(pairs)


def _choose_version(checkpoint: Checkpoint) -> int:
    if checkpoint.aliases or checkpoint.config.tokenization != TokenizationConfig():
        return TOKENIZATION_VERSION
    return FORMAT_VERSION if checkpoint.context is None else CONTEXT_VERSION


def read_card(path: Location) -> str | None:
    """Return the card; a file that is not text of a usual size is not the model's."""
    content = read_file(path) if path.is_file() else None
    try:
        return None if content is None or len(content) > MAX_CARD_BYTES else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _write_files(checkpoint: Checkpoint, folder: Path, storage: Storage) -> None:
    stored = store(_to_cpu(checkpoint.weights), storage)
    weights_hash = content_hash(restore(stored))  # of what a reader gets
    context = checkpoint.context
    header: dict[str, Any] = {
        "format": FORMAT_NAME,
        "model_type": "elmo",  # by which transformers' Auto classes know the folder
        "version": _choose_version(checkpoint),
        "content_hash": weights_hash,
        "origin": dict(checkpoint.origin),
        "model": checkpoint.config.to_dict(),
    }
    if context is not None:
        header["context"] = {"content_hash": context.content_hash(), "settings": context.config.to_dict()}
    write_json(folder / CONFIG_FILE, header)
    _write_tensors(stored, folder / WEIGHTS_FILE, weights_hash)
    if context is not None:
        _write_tensors(_to_cpu(context.tensors), folder / CONTEXT_FILE, context.content_hash())
    counts = checkpoint.word_counts
    for name, lines in (
        (CONTEXT_WORDS_FILE, None if context is None else context.words),
        (VOCABULARY_FILE, checkpoint.vocabulary),
        (CHARACTERS_FILE, checkpoint.characters),
        (COUNTS_FILE, None if counts is None else map(str, counts)),
        (ALIASES_FILE, [f"{one} {other}" for one, other in checkpoint.aliases.items()] or None),
    ):
        if lines is not None:
            (folder / name).write_bytes(format_lines(lines))


def _to_cpu(tensors: Weights) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _write_tensors(tensors: dict[str, Tensor], path: Path, recorded_hash: str) -> None:
    safetensors.torch.save_file(tensors, path, metadata={"content_hash": recorded_hash})
    shutil.copymode(path.with_name(CONFIG_FILE), path)  # safetensors lets only the owner read it


def store(weights: Weights, storage: Storage) -> dict[str, Tensor]:
    """Return the tensors to write for weights in float32."""
    if storage not in get_args(Storage):
        raise CheckpointError(
            f"storage is {storage!r}; weights are stored as one of {', '.join(get_args(Storage))}."
        )
    if storage == "float32":
        return dict(weights)
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if storage == "compact" and name == _SOFTMAX_WEIGHT:
            stored[name], scale = quantize(tensor, smallest=_SMALLEST_SCALE)
            stored[name + _SCALE] = _same_scale(tensor, stored[name], scale)
        else:
            stored[name] = tensor.half()
            if not torch.isfinite(stored[name]).all():
                raise CheckpointError(
                    f"{name} has values that float16 cannot hold (up to {tensor.abs().max():.3g}, at most 65504 "
                    "can be stored); save the model in float32."
                )
    return stored


def _same_scale(tensor: Tensor, stored: Tensor, scale: Tensor) -> Tensor:
    """Return the scale that weights restored from 8 bits were stored with, so that storing them again is exact."""
    chosen = scale
    for towards in (torch.inf, 0.0):
        other = torch.nextafter(scale, torch.full_like(scale, towards))
        is_same = (stored.float() * other[:, None] == tensor).all(dim=1)
        chosen = torch.where(is_same, other, chosen)
    return chosen


def restore(stored: Weights) -> dict[str, Tensor]:
    """Return the weights in float32; a tensor of any other type is left as it is."""
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        scale = stored.get(name + _SCALE)
        if tensor.dtype == torch.float16:
            weights[name] = tensor.float()
        elif tensor.dtype == torch.int8 and scale is not None and scale.shape == tensor.shape[:1]:
            weights[name] = tensor.float() * scale[:, None]
        elif not (name.endswith(_SCALE) and stored.get(name.removesuffix(_SCALE), tensor).dtype == torch.int8):
            weights[name] = tensor
    return weights
