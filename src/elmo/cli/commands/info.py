"""`elmo info`: describe a model, a folder of vectors, a trained task or a tagger; the first two are verified."""

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.cli import options
from elmo.cli.command import argument
from elmo.cli.options import FilesOptions
from elmo.cli.terminal import align_facts
from elmo.files.rows import to_json
from elmo.files.work_folder import read_json
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint

TASK_FILE = "task.json"


def info(
    files: FilesOptions,
    model: str | None = argument("MODEL", "A model, a folder of vectors, or a task; default: en-small.", None),
    as_json: options.AsJson = False,
) -> None:
    """Describe a model, a folder of vectors or a task.

    \b
    Examples:
      elmo info en-small
      elmo info vectors
      elmo info tagger
      elmo info en-pos
    """
    from elmo.checkpoint.source import DEFAULT_MODEL

    facts = _describe(files, model or str(DEFAULT_MODEL))
    print(to_json(facts) if as_json else align_facts(facts))


def _describe(files: FilesOptions, name: str) -> dict[str, Any]:
    if files.format is None and Path(name).is_dir():
        from elmo.vectors.folder import VECTORS

        if VECTORS.is_described(Path(name)):
            return _describe_vectors(Path(name))
        if (task := read_json(Path(name) / TASK_FILE)) is not None:
            return task
    from elmo.tasks.taggers import describe_tagger, list_taggers

    if name in list_taggers() and not Path(name).exists():
        return describe_tagger(name)
    from elmo.checkpoint.folder import check_hashes
    from elmo.checkpoint.open import is_archive
    from elmo.checkpoint.source import find_model

    checkpoint = files.read(name)
    path = find_model(name, local_files_only=True)  # already downloaded
    path = path if path.exists() else path.parent  # the prefix of a TensorFlow checkpoint
    listed = [path] if path.is_file() else [entry for entry in path.iterdir() if entry.is_file()]
    facts = _describe_model(checkpoint, {file.name: file.stat().st_size for file in sorted(listed)})
    if is_archive(path):
        facts["format"] = "zip"
    elif files.format in (None, "elmo"):
        check_hashes(path, checkpoint, facts["content_hash"])
    return facts


def _describe_model(checkpoint: "Checkpoint", files: dict[str, int]) -> dict[str, Any]:
    """Return the facts about a model as plain JSON values; `files` maps names to sizes in bytes."""
    from elmo.checkpoint.weights import content_hash, shapes_of
    from elmo.kernels.library import find_kernels
    from elmo.model import Elmo

    config, context = checkpoint.config, checkpoint.context
    kernels, model = find_kernels(), Elmo(checkpoint, precision="auto")
    parts: Counter[str] = Counter()
    for name, shape in shapes_of(checkpoint.weights).items():
        # "tokens.characters.embedding.weight" is counted under tokens.characters, other weights under their first name.
        depth = 2 if name.startswith("tokens.") else 1
        parts[".".join(name.split(".")[:depth])] += math.prod(shape)
    return {
        # In our own format, the origin records the format that the model was converted from.
        "format": "elmo" if "weights.safetensors" in files else checkpoint.origin.get("format", "unknown"),
        "origin": dict(checkpoint.origin),
        "layers": config.encoder.num_layers + 1,
        "vector_dim": config.vector_dim,
        "config": config.to_dict(),
        "num_aliases": len(checkpoint.aliases or ()),
        "vocabulary_words": None if checkpoint.vocabulary is None else len(checkpoint.vocabulary),
        "context": context and {**context.config.to_dict(), "content_hash": context.content_hash()},
        "parameters": {"total": sum(parts.values()), **parts},
        "files": files,
        "on_this_machine": {
            "kernels": f"compiled, {kernels.reason}" if kernels.library else f"NumPy: {kernels.reason}",
            "auto_precision": model.precision,
            "reason": model._runtime.precision_choice.reason,
        },
        "content_hash": content_hash(checkpoint.weights),
    }


def _describe_vectors(folder: Path) -> dict[str, Any]:
    from elmo import vectors
    from elmo.vectors.folder import VECTORS, list_files

    manifest = vectors.open(folder).manifest
    files = list_files(manifest)
    num_bytes = sum(file["num_bytes"] for file in files.values())
    with progress_bar(unit="files", num_bytes=num_bytes) as advance:
        VECTORS.verify(folder, files, advance=lambda size: advance(size, 0))
    names = ("format", "version", "made_with", "model", "settings", "vector_shape", "counts")
    return {
        **{name: manifest[name] for name in names},
        "num_parts": len(manifest["parts"]),
        "inputs": manifest["inputs"],
        "num_bytes": num_bytes,
        "verified": "checksums",
    }
