"""`elmo info`: what a model, a folder of vectors, a trained task or a tagger holds; the first two are checked."""

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import FilesOptions
from elmo.cli.terminal import align_facts
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.work_folder import read_json
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint

TASK_FILE = "task.json"


def info(
    files: FilesOptions,
    model: str | None = argument("MODEL", "A model, or a folder of vectors or of a task; else en-small.", None),
    json: options.AsJson = False,
    checksums: bool = option("", "Read the whole of a folder of vectors and compare its checksums.", True),
) -> None:
    """Describe a model, a folder of vectors or a task.

    \b
    Examples:
      elmo info en-small
      elmo info vectors
      elmo info tagger
      elmo info en-pos
    """
    if model is not None and files.format is None and Path(model).is_dir():
        from elmo.vectors.folder import VECTORS

        if VECTORS.is_described(Path(model)):
            vectors = _describe_vectors(Path(model), checksums=checksums)
            print(to_json(vectors) if json else align_facts(_vector_facts(vectors)))
            return
        if (task := read_json(Path(model) / TASK_FILE)) is not None:
            print(to_json(task) if json else align_facts(_task_facts(task)))
            return
    from elmo.tasks.taggers import describe_tagger, list_taggers

    if model in list_taggers() and not Path(model).exists():
        tagger = describe_tagger(model)
        facts = {name: tagger[name] for name in ("model", "data", "license")}
        facts |= {"tags": ", ".join(tagger["tags"]), "test scores": str(tagger["scores"])}
        print(to_json(tagger) if json else align_facts({"format": "a ready-made tagger", **facts}))
        return
    if not checksums:
        raise InputError("--no-checksums is for folders of vectors; leave it out for a model.")
    checkpoint = files.read(model)
    path = _locate(model)
    facts = _describe_model(checkpoint, _list_files(path))
    from elmo.checkpoint.folder import check_content_hash
    from elmo.checkpoint.open import is_archive

    if is_archive(path):
        facts["format"] = "zip"
    elif files.format in (None, "elmo"):
        check_content_hash(path, facts["content_hash"], checkpoint.context, checkpoint.sentence)
    print(to_json(facts) if json else align_facts(_model_facts(facts)))


def _describe_model(checkpoint: "Checkpoint", files: dict[str, int]) -> dict[str, Any]:
    """Return the facts about a model as plain JSON values; `files` maps names to sizes in bytes."""
    from elmo.checkpoint.weights import content_hash, shapes_of

    config, context = checkpoint.config, checkpoint.context
    characters, words = config.characters, config.words
    parts: Counter[str] = Counter()
    for name, shape in shapes_of(checkpoint.weights).items():
        # "tokens.characters.embedding.weight" is counted under tokens.characters, all else under its first name.
        depth = 2 if name.startswith("tokens.") else 1
        parts[".".join(name.split(".")[:depth])] += math.prod(shape)
    return {
        # A model in our own format remembers the one it was converted from.
        "format": (
            "elmo"
            if {"config.json", "weights.safetensors"} <= set(files)
            else checkpoint.origin.get("format", "unknown")
        ),
        "origin": dict(checkpoint.origin),
        "layers": config.encoder.num_layers + 1,
        "vector_dim": config.vector_dim,
        "output_dim": config.encoder.output_dim,
        "encoder": {
            name: getattr(config.encoder, name, None)
            for name in ("kind", "cell_dim", "num_heads", "feed_forward_dim", "context")
        },
        "input": {
            "kind": " and ".join(kind for kind in ("characters", "words") if getattr(config, kind)),
            "alphabet": characters.alphabet if characters else None,
            "units": config.tokenization.units,
            "scripts": list(config.tokenization.scripts),
            "num_aliases": len(checkpoint.aliases or ()),
            "num_characters": characters.num_characters if characters else None,
            "characters_per_word": characters.max_characters if characters else None,
            "num_words": words.num_words if words else None,
        },
        "vocabulary_words": None if checkpoint.vocabulary is None else len(checkpoint.vocabulary),
        "softmax": config.softmax is not None,
        "context": context and {**context.config.to_dict(), "content_hash": context.content_hash()},
        "parameters": {"total": sum(parts.values()), **parts},
        "files": files,
        "on_this_machine": _describe_machine(checkpoint),
        "content_hash": content_hash(checkpoint.weights),
    }


def _describe_machine(checkpoint: "Checkpoint") -> dict[str, str]:
    """Return which kernels run the model here, and which precision "auto" chooses and why."""
    from elmo.kernels.library import find_kernels
    from elmo.model import Elmo

    kernels = find_kernels()
    model = Elmo(checkpoint, precision="auto")
    return {
        "kernels": f"compiled, {kernels.reason}" if kernels.library else f"NumPy: {kernels.reason}",
        "auto_precision": model.precision,
        "reason": model.runtime.precision_reason,
    }


def _locate(model: str | None) -> Path:
    from elmo.checkpoint.source import DEFAULT_MODEL, find_model

    # The model was opened a moment ago, so it is on this machine.
    path = find_model(DEFAULT_MODEL if model is None else model, local_files_only=True)
    return path if path.exists() else path.parent  # the prefix of a TensorFlow checkpoint


def _list_files(path: Path) -> dict[str, int]:
    """Return the sizes of a model's files by their names."""
    files = [path] if path.is_file() else [entry for entry in path.iterdir() if entry.is_file()]
    return {file.name: file.stat().st_size for file in sorted(files)}


def _model_facts(model: dict[str, Any]) -> dict[str, str]:
    origin, tokens, encoder, machine = (model[name] for name in ("origin", "input", "encoder", "on_this_machine"))
    context, words = model["context"], model["vocabulary_words"]
    network = f"lstm, {encoder['cell_dim']} cells per layer and direction"
    units, alphabet, topic = "words", "none", "none"
    if encoder["kind"] != "lstm":
        network = (
            f"transformer, {encoder['num_heads']} heads that attend to {encoder['context']:,} words back, "
            f"{encoder['feed_forward_dim']:,} feed-forward dimensions"
        )
    if tokens["units"] == "characters":
        units = f"characters of {', '.join(tokens['scripts'])}; {tokens['num_aliases']:,} others are read as these"
    if tokens["alphabet"]:
        numbers = f"{tokens['num_characters']:,} ids, {tokens['characters_per_word']} per word"
        alphabet = f"{tokens['alphabet']}, {numbers}"
    if context is not None:
        topic = (
            f"{context['num_words']:,} words of {context['dim']:,} dimensions, {context['window']} words on each "
            f"side; weight {context['share']:g} relative to the top layer in 'meaning'"
        )
    return {
        "format": model["format"],
        "origin": f"{origin.get('format', 'unknown')}, {origin.get('source', 'unknown')}",
        "layers": f"{model['layers']}: the word alone, then {model['layers'] - 1} of the language model",
        "vectors": f"{model['vector_dim']:,} dimensions: {model['output_dim']:,} from each direction",
        "encoder": network,
        "input": tokens["kind"],
        "units": units,
        "alphabet": alphabet,
        "vocabulary": "none" if words is None else f"{words:,} words",
        "softmax": "yes" if model["softmax"] else "no: the model computes vectors but predicts no words",
        "context layer": topic,
        "parameters": f"{model['parameters']['total']:,}",
        **{f"  {name}": f"{size:,}" for name, size in model["parameters"].items() if name != "total"},
        "files": f"{sum(model['files'].values()):,} bytes",
        **{f"  {name}": f"{size:,}" for name, size in model["files"].items()},
        "kernels here": machine["kernels"],
        "auto precision": f"{machine['auto_precision']}: {machine['reason']}",
        "content hash": model["content_hash"],
        **({} if context is None else {"  context layer": context["content_hash"]}),
    }


def _describe_vectors(folder: Path, *, checksums: bool) -> dict[str, Any]:
    """Return the facts about a folder as plain JSON values; InputError if it is damaged or not finished."""
    from elmo.vectors.folder import read_manifest, verify

    manifest = read_manifest(folder)
    if manifest is None:
        num_parts = len(list((folder / ".job").glob("part-*.json")))
        raise InputError(
            f"{folder} is not finished: {num_parts:,} parts are there; run the command that started it again."
        )
    num_bytes = sum(file["num_bytes"] for file in manifest.files.values())
    with progress_bar(unit="files", num_bytes=num_bytes) as advance:
        verify(folder, manifest, lambda size: advance(size, 0), checksums=checksums)
    names = ("format", "version", "made_with", "model", "settings", "vector_shape", "counts")
    return {
        **{name: manifest.values[name] for name in names},
        "num_parts": len(manifest.parts),
        "inputs": manifest.values["inputs"],
        "num_bytes": num_bytes,
        "verified": "checksums" if checksums else "sizes",
    }


def _vector_facts(vectors: dict[str, Any]) -> dict[str, str]:
    settings, counts, model = vectors["settings"], vectors["counts"], vectors["model"]
    layers, shape = settings["layers"], " × ".join(f"{size:,}" for size in vectors["vector_shape"])
    verified = {"checksums": "all files have their size and checksum", "sizes": "all files have their size"}
    return {
        "format": f"vectors of {settings['unit']} in {settings['file_format']} files",
        "parts": f"{vectors['num_parts']:,}",
        "vectors": f"{counts['num_vectors']:,} of {shape} {settings['dtype']}",
        "layers": ", ".join(map(str, layers)) if isinstance(layers, list) else str(layers or "as pooling needs"),
        **({"pooling": settings["pooling"]} if settings["unit"] == "sentences" else {}),
        "rows": f"{counts['num_written']:,} of {counts['num_rows']:,} in the input",
        "rejected": f"{counts['num_rejected']:,}" + (", see rejects.jsonl" if counts["num_rejected"] else ""),
        "words": f"{counts['num_words']:,}",
        "size": f"{vectors['num_bytes']:,} bytes",
        "model": f"content hash {model['content_hash']}, {model['precision']} on {model['device']}",
        "inputs": f"{len(vectors['inputs']):,}",
        **{f"  {file['name']}": f"{file['num_rows']:,} rows, {file['format']}" for file in vectors["inputs"][:20]},
        "made with": ", ".join(f"{name} {number}" for name, number in vectors["made_with"].items()),
        "verified": verified[vectors["verified"]],
    }


def _task_facts(task: dict[str, Any]) -> dict[str, str]:
    """Return the facts about a trained task, as task.json states them."""
    settings, bilm = task.get("settings", {}), task.get("bilm") or {}
    known = task.get("labels") or {}
    labels = [str(label) for label in known.get("tags") or known.get("labels") or ()]
    elmo, network, words = (settings.get(name, {}) for name in ("elmo", "network", "words"))
    shown = ", ".join(labels[:20]) + (", …" if len(labels) > 20 else "")
    return {
        "format": f"a trained task, {task.get('family', 'unknown')}",
        "labels": f"{len(labels):,}: {shown}" if labels else "none",
        "network": f"{network.get('kind', 'unknown')} of {network.get('dim', '?')} dimensions",
        "word features": ", ".join(words.get("kinds") or ["none"]),
        "ELMo": f"{elmo.get('layers')} layers, at the {elmo.get('where')}" if bilm else "none",
        "biLM": f"{bilm.get('source') or 'en-small'}, content hash {bilm.get('hash')}" if bilm else "none",
        "format of the data": str((task.get("read") or {}).get("format") or "detected"),
    }
