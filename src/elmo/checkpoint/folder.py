"""The model folder, modern-elmo's own format: config.json, weights.safetensors, and word lists with one entry per line.

The lists are vocabulary.txt, word_counts.txt, characters.txt, aliases.txt (a token and its replacement per line) and
context.txt. The settings of a component (see components.py) are in config.json, its arrays in a safetensors file.
config.json records the hash of every other file, so a folder whose files come from different saves is rejected. Folders
of versions 1 to 3 (modern-elmo 0.2) have no hashes of their lists.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.components import ContextLayer, SentenceHead
from elmo.checkpoint.location import as_path, read_file, read_json
from elmo.checkpoint.tensors import Array, read_tensors, write_tensors
from elmo.checkpoint.weights import Storage, StoredWeights, content_hash, convert_weights
from elmo.config import ContextConfig, ModelConfig, SentenceConfig
from elmo.errors import CheckpointError
from elmo.files.durable import current_folder, link_or_copy, replace_file, replacing_folder
from elmo.text.vocabulary import format_lines, parse_lines

CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "weights.safetensors", "README.md"
VOCABULARY_FILE, CHARACTERS_FILE = "vocabulary.txt", "characters.txt"
COUNTS_FILE, ALIASES_FILE, CONTEXT_WORDS_FILE = "word_counts.txt", "aliases.txt", "context.txt"
_LISTS = (VOCABULARY_FILE, CHARACTERS_FILE, COUNTS_FILE, ALIASES_FILE, CONTEXT_WORDS_FILE)
FILES = (CONFIG_FILE, WEIGHTS_FILE, *_LISTS, "context.safetensors", "sentence.safetensors")
FORMAT_NAME, FORMAT_VERSION = "modern-elmo", 4
_FRONT_MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)


def is_model_folder(folder: Path) -> bool:
    """Return whether a folder holds a model in modern-elmo's format."""
    return (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file()


def read_folder(folder: Path) -> Checkpoint:
    """Open a model folder; the weights are memory-mapped."""
    path = folder / CONFIG_FILE
    header = read_json(path)
    name, version = header.get("format"), header.get("version")
    if name != FORMAT_NAME:
        raise CheckpointError(f"{path} has the format {name!r}, not {FORMAT_NAME!r}; choose another folder.")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise CheckpointError(f"{path} has version {version!r}, not 1 to {FORMAT_VERSION}; update modern-elmo.")
    if version != FORMAT_VERSION:  # earlier versions have no hashes of the lists
        header["lists"] = {name: None for name in _LISTS if (folder / name).is_file()}
    weights = StoredWeights(_read_arrays(folder / WEIGHTS_FILE, header.get("content_hash")))
    try:
        lists = {name: _read_list(folder / name, sha256) for name, sha256 in header["lists"].items()}
        word_counts = tuple(map(int, lists[COUNTS_FILE])) if COUNTS_FILE in lists else None
        aliases = dict(line.split(" ") for line in lists.get(ALIASES_FILE, ()))
        origin = {name: str(value) for name, value in header["origin"].items()}
        config = ModelConfig.from_dict(header["model"])
        context = sentence = None
        if "context" in header:
            settings = ContextConfig.from_dict(header["context"]["settings"])
            arrays = _read_arrays(folder / "context.safetensors", header["context"]["content_hash"])
            context = ContextLayer(settings, lists[CONTEXT_WORDS_FILE], arrays)
        if "sentence" in header:
            head_settings = SentenceConfig.from_dict(header["sentence"]["settings"])
            arrays = _read_arrays(folder / "sentence.safetensors", header["sentence"]["content_hash"])
            sentence = SentenceHead(head_settings, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} or a list next to it is damaged ({error!r}); copy the model again.") from error
    return Checkpoint(
        config=config,
        weights=weights,
        vocabulary=lists.get(VOCABULARY_FILE),
        characters=lists.get(CHARACTERS_FILE),
        origin=origin,
        word_counts=word_counts,
        card=read_card(folder),
        context=context,
        aliases=aliases,
        sentence=sentence,
    )


def write_folder(
    checkpoint: Checkpoint,
    folder: str | Path,
    *,
    storage: Storage = "float32",
    write_extra: Callable[[Path], None] | None = None,
) -> None:
    """Write a model folder atomically: at any time it holds either the old model or the new one.

    In an existing folder, the files of the old model are replaced or removed; other files, including README.md, stay.
    `write_extra` adds files to a new folder before it is renamed into place.
    """
    with writing_model(checkpoint, folder, FILES) as new:
        stored = convert_weights(checkpoint.weights, storage)
        weights_hash = content_hash(StoredWeights(stored))  # of the weights after rounding
        header: dict[str, Any] = {
            "format": FORMAT_NAME,
            "model_type": "elmo",  # lets transformers' Auto classes recognize the folder
            "version": FORMAT_VERSION,
            "content_hash": weights_hash,
            "origin": dict(checkpoint.origin),
            "model": checkpoint.config.to_dict(),
            "lists": {},
        }
        write_tensors(new / WEIGHTS_FILE, stored, {"content_hash": weights_hash})
        for name, component in named_components(checkpoint).items():
            component_hash = component.content_hash()
            header[name] = {"content_hash": component_hash, "settings": component.config.to_dict()}
            write_tensors(new / f"{name}.safetensors", component.arrays, {"content_hash": component_hash})
        for name, entries in named_word_lists(checkpoint).items():
            content = format_lines(entries)
            header["lists"][name] = hashlib.sha256(content).hexdigest()
            (new / name).write_bytes(content)
        write_json(new / CONFIG_FILE, header)
        if write_extra is not None:
            assert not Path(folder).exists()
            write_extra(new)


@contextmanager
def writing_model(checkpoint: Checkpoint, folder: str | Path, replaces: Collection[str]) -> Iterator[Path]:
    """Yield a folder to write a model's files to; at the end it becomes `folder` or replaces its files.

    The model's card is written too, unless `folder` has a README.md.
    """
    folder = as_path(folder, "The folder to save to")
    try:
        old_card = current_folder(folder) / CARD_FILE
        with replacing_folder(folder, replaces) as new:
            if old_card.is_file():
                link_or_copy(old_card, new / CARD_FILE)  # the new folder replaces the old one, so it needs the card too
            elif checkpoint.card is not None:
                (new / CARD_FILE).write_bytes(checkpoint.card.encode("utf-8"))
            yield new
    except OSError as error:
        raise CheckpointError(f"The model could not be saved to {folder}: {error}.") from error


def check_hashes(folder: Path, checkpoint: Checkpoint, weights_hash: str) -> None:
    """Compare the hashes of an opened model with those recorded in its folder, if that is in modern-elmo's format.

    `weights_hash` is the content hash of the weights.
    """
    folder = current_folder(folder)
    if not is_model_folder(folder):
        return
    header = read_json(folder / CONFIG_FILE)
    hashes = [(WEIGHTS_FILE, weights_hash, header["content_hash"])]
    # Older versions hashed fewer component settings, so the recorded hashes cannot be compared.
    components = named_components(checkpoint) if header["version"] == FORMAT_VERSION else {}
    for name, component in components.items():
        hashes.append((f"{name}.safetensors", component.content_hash(), header[name]["content_hash"]))
    for file_name, actual, recorded in hashes:
        if actual != recorded:
            raise CheckpointError(f"{folder / file_name} is damaged (checksum mismatch); copy or save the model again.")


def write_json(path: Path, value: object) -> None:
    """Write a JSON file durably."""
    replace_file(path, f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode())


def _read_list(path: Path, recorded_hash: object) -> tuple[str, ...]:
    """Return the entries of a text file, one per line; without a recorded hash, they are not checked."""
    content = read_file(path)
    if recorded_hash not in (None, hashlib.sha256(content).hexdigest()):
        raise CheckpointError(f"{path} does not belong to the {CONFIG_FILE} next to it; save or copy the model again.")
    return tuple(parse_lines(content))


def _read_arrays(path: Path, recorded_hash: object) -> dict[str, Array]:
    arrays, metadata = read_tensors(path)
    if metadata.get("content_hash") != recorded_hash:
        raise CheckpointError(f"{path} and {CONFIG_FILE} come from different saves; save or copy the model again.")
    return arrays


def named_components(checkpoint: Checkpoint) -> dict[str, ContextLayer | SentenceHead]:
    """Return the components of a model by their names in config.json."""
    by_name = {"context": checkpoint.context, "sentence": checkpoint.sentence}
    return {name: component for name, component in by_name.items() if component is not None}


def named_word_lists(checkpoint: Checkpoint) -> dict[str, Iterable[str]]:
    """Return the word and character lists of a model by their file names."""
    context, counts = checkpoint.context, checkpoint.word_counts
    lists = {
        CONTEXT_WORDS_FILE: None if context is None else context.words,
        VOCABULARY_FILE: checkpoint.vocabulary,
        CHARACTERS_FILE: checkpoint.characters,
        COUNTS_FILE: None if counts is None else map(str, counts),
        ALIASES_FILE: [f"{token} {alias}" for token, alias in checkpoint.aliases.items()] or None,
    }
    return {name: entries for name, entries in lists.items() if entries is not None}


# --- the model card, README.md


def read_card(folder: Path) -> str | None:
    """Return the model card in a folder, if there is one."""
    path = folder / CARD_FILE
    return read_file(path).decode("utf-8", "replace") if path.is_file() else None


def derived_card(card: str | None, operation: str) -> str | None:
    """Return the card of a model derived by `operation`; it keeps the license and language, not the measurements."""
    front = _FRONT_MATTER.match(card or "")
    if card is None or front is None:
        return None
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    name = title[1].strip() if title else "another model"
    return (
        f"{front[0]}# From {name}\n\nMade from {name} by {operation}. The license of {name} applies to these weights; "
        "its measurements do not.\n"
    )


def card_field(card: str | None, name: Literal["language", "license"]) -> str | None:
    """Return a field from the front matter of a card; for a list, its first item."""
    front = _FRONT_MATTER.match(card or "")
    pattern = rf"^{name}:[ \t]*(?:\n[ \t]*-[ \t]*|\[)?['\"]?([^'\"\n,\]]+)"
    line = re.search(pattern, front[1], re.MULTILINE) if front else None
    return line[1].strip() if line else None
