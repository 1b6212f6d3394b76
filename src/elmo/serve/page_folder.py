"""Write the page and its models, in int8, to a folder of plain files, which needs no server.

The page is the same as in `elmo serve`, but elmo.js computes the results in the browser. The results for the examples
are computed here, so that the page can show them before a model is loaded.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis import map_senses
from elmo.checkpoint.checkpoint import SOFTMAX_PREFIXES, Checkpoint
from elmo.checkpoint.components import ContextLayer
from elmo.checkpoint.folder import (
    CONFIG_FILE,
    FORMAT_NAME,
    FORMAT_VERSION,
    WEIGHTS_FILE,
    named_components,
    named_word_lists,
)
from elmo.checkpoint.tensors import Array, write_tensors
from elmo.checkpoint.vocabulary import change_vocabulary
from elmo.checkpoint.weights import StoredWeights
from elmo.config import EncoderConfig
from elmo.errors import InputError
from elmo.files.durable import atomic_write, check_parent, remove_stale
from elmo.inference.layers import LayerName
from elmo.kernels.int8 import quantize_rows
from elmo.model import Elmo
from elmo.serve.served import Served, ServedModel
from elmo.text.sentence_input import read_marked
from elmo.text.vocabulary import format_lines

INDEX, MODELS, ANSWERS, OFFLINE = "index.html", "models.json", "answers.json", "offline.js"
SOFTMAX = "softmax.safetensors"
NAMES = (INDEX, MODELS, ANSWERS, OFFLINE, "page", "models")  # of a page; a folder with other entries is not replaced
SHOWN_SUBSTITUTES = 8  # as in page/lists.js
_PAGE_ONLY_FOR_SERVERS = ("docs.html", "docs.js", INDEX, OFFLINE)
_POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'"
)


def write_page(served: Served, output: Path, num_words: int) -> int:
    """Write the page to a folder, with the models reduced to their `num_words` most frequent words.

    Returns its size in bytes. Raises InputError for a model that elmo.js cannot run, or if the folder has other files.
    """
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a new folder.")
    names = {entry.name for entry in output.iterdir()} if output.exists() else set()
    if others := names - set(NAMES) if INDEX in names else names:
        raise InputError(f"{output} has other files than a page ({min(others)}); give a new folder.")
    for model in served.models.values():
        _check_model(model.name, model.elmo)
    served = Served({name: shorten(model, num_words) for name, model in served.models.items()})
    check_parent(output)
    remove_stale(output.resolve().parent, output.name)
    with atomic_write(output, replaces_folder=True) as folder:
        folder.mkdir()
        _write_all(served, folder)
        num_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return num_bytes


def _check_model(name: str, elmo: Elmo) -> None:
    config = elmo.config
    reads_utf8 = config.characters is None or (config.words is None and config.characters.alphabet == "utf-8")
    if not isinstance(config.encoder, EncoderConfig) or not config.token_projection or not reads_utf8:
        raise InputError(
            f"{name} cannot run in a browser: elmo.js runs LSTM models that read UTF-8 characters or words and have "
            "a projection of tokens; serve it with `elmo serve`."
        )


def shorten(model: ServedModel, num_words: int) -> ServedModel:
    """Reduce the static vectors and softmax of a model to the most frequent words, which are first in both lists.

    Vectors of other words are estimated from their characters; the word embedding of a word-level model is kept.
    """
    checkpoint = model.elmo.checkpoint()
    context, config, words = checkpoint.context, checkpoint.config, checkpoint.vocabulary
    if config.softmax is not None and config.words is None and words is not None:
        checkpoint = change_vocabulary(checkpoint, words[:num_words])
    if context is not None and len(context.words) > num_words:
        rows = ("vectors", "scales", "weights")
        arrays = {name: array[:num_words] if name in rows else array for name, array in context.arrays.items()}
        settings = replace(context.config, num_words=num_words)
        checkpoint = replace(checkpoint, context=ContextLayer(settings, context.words[:num_words], arrays))
    return replace(model, elmo=Elmo(checkpoint, precision="int8"))


def _write_all(served: Served, folder: Path) -> None:
    page = files("elmo.serve") / "page"
    (folder / "page").mkdir()
    for file in page.iterdir():
        if file.is_file() and file.name not in _PAGE_ONLY_FOR_SERVERS:
            (folder / "page" / file.name).write_bytes(file.read_bytes())
    charset = '<meta charset="utf-8">'
    head = [charset, f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">']
    head.append(f'<meta name="elmo-models" content="{MODELS}">')
    content = (page / INDEX).read_text(encoding="utf-8").replace(charset, "\n".join(head))
    (folder / INDEX).write_text(content, encoding="utf-8")
    entries = []
    for model in served.models.values():
        write_model(model.elmo.checkpoint(), folder / "models" / model.name)
        entries.append({**model.describe(), "folder": f"models/{model.name}/", "precision": "int8"})
    _write_json(folder / MODELS, {"models": entries, "tasks": [], "limits": {}})
    examples = json.loads((page / "examples.json").read_text(encoding="utf-8"))
    answers = {name: answer_examples(model, examples) for name, model in served.models.items()}
    _write_json(folder / ANSWERS, answers)
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    shell = ["./", *(path for path in paths if not path.startswith("models/") and path != INDEX)]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.encode() + (folder / path).read_bytes())
    script = (page / OFFLINE).read_text(encoding="utf-8").replace("{{version}}", digest.hexdigest()[:16])
    (folder / OFFLINE).write_text(script.replace('["{{files}}"]', json.dumps(shell)), encoding="utf-8")


def write_model(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a model folder for elmo.js; its config.json lists the sizes of the other files.

    Matrices are in int8 with one scale per row, and the softmax is in a separate file; Python cannot open the folder.
    """
    folder.mkdir(parents=True)
    weights = checkpoint.weights
    stored: Mapping[str, Array] = weights.stored if isinstance(weights, StoredWeights) else weights
    network: dict[str, Array] = {}
    softmax: dict[str, Array] = {}
    for name, array in stored.items():
        (softmax if name.startswith(SOFTMAX_PREFIXES) else network).update(shrink(name, array))
    write_tensors(folder / WEIGHTS_FILE, network, {})
    header: dict[str, Any] = {
        "format": FORMAT_NAME, "version": FORMAT_VERSION, "origin": dict(checkpoint.origin),
        "model": checkpoint.config.to_dict(),
    }  # fmt: skip
    if softmax:
        write_tensors(folder / SOFTMAX, softmax, {})
    for name, component in named_components(checkpoint).items():
        header[name] = {"settings": component.config.to_dict()}
        exact = ("scales", "vectors")
        arrays = {key: array if key in exact else _to_float16(array) for key, array in component.arrays.items()}
        write_tensors(folder / f"{name}.safetensors", arrays, {})
    for name, entries in named_word_lists(checkpoint).items():
        # Not every web host compresses its responses.
        (folder / f"{name}.gz").write_bytes(gzip.compress(format_lines(entries), mtime=0))
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    _write_json(folder / CONFIG_FILE, {**header, "files": sizes})


def shrink(name: str, array: Array) -> dict[str, Array]:
    """Return a weight in int8 with scales if it is used in matrix products, else in float16."""
    if array.dtype == np.int8 or name.endswith(".scale"):
        return {name: array}
    if array.ndim == 2 and name.endswith("weight") and "embedding" not in name:
        matrix, scales = quantize_rows(array)
        return {name: matrix, f"{name}.scale": scales}
    return {name: _to_float16(array)}


def _to_float16(array: Array) -> Array:
    """Convert float32 to float16, unless there are larger numbers than it can hold."""
    is_too_large = array.dtype != np.float32 or np.abs(array).max(initial=0) > np.finfo(np.float16).max
    return array if is_too_large else array.astype(np.float16)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def answer_examples(model: ServedModel, examples: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results for the examples in a model's language, with the keys that page/local.js looks up.

    Only the first example has vectors (float16); the others need the model.
    """
    elmo = model.elmo
    language = (model.card["language"] or "en")[:2]
    of_language = examples.get(language, {"compare": [], "senses": []})
    answers: dict[str, Any] = {"embed": {}, "substitutes": {}, "senses": {}}
    choices: list[LayerName] = ["all", "meaning"] if elmo.context is not None else ["all"]
    for number, example in enumerate(of_language["compare"]):
        for sentence in example["sentences"]:
            text = sentence.replace("[", "").replace("]", "")
            if number == 0:
                words = [{"text": word.text, "start": word.start, "end": word.end} for word in elmo.tokenize(text)]
                for layers in choices:
                    array = np.ascontiguousarray(elmo.embed(text, layers=layers), dtype="<f2")
                    half = base64.b64encode(array.data).decode("ascii")
                    answer = {"words": words, "shape": list(array.shape), "half": half}
                    answers["embed"].setdefault(layers, {})[text] = answer
            if "[" in sentence and model.predicts_words:
                _, (start, end) = read_marked(sentence, elmo.tokenization)
                key = f"{text}\n{start}" if end == start + 1 else f"{sentence}\n"
                substitutes = elmo.substitutes(sentence, top_k=SHOWN_SUBSTITUTES)
                answers["substitutes"][key] = [asdict(substitute) for substitute in substitutes]
    for example in of_language["senses"]:
        senses = map_senses(elmo, example["sentences"], num_senses=example["num_senses"])
        answers["senses"]["\n".join([*example["sentences"], str(example["num_senses"])])] = senses.to_dict()
    return answers
