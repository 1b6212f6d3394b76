"""Build and search an index of all word occurrences in a folder of word vectors.

The index is the subfolder `index` of that folder: the words, and one faiss file per layer. The sentences are read
from the folder of vectors.
"""

import bisect
import itertools
import json
import random
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, LayerKey, choose_layer
from elmo.analysis.occurrences import Neighbor, Occurrence, Occurrences, StaticNeighbor, TextSettings, place_words
from elmo.analysis.vector_file import SAMPLE_SIZE, VectorFile, require_faiss, write_vectors
from elmo.config import Script
from elmo.errors import CheckpointError, ElmoError, InputError, first_line
from elmo.files.durable import atomic_write, remove
from elmo.files.work_folder import identify, read_json
from elmo.inference.context import normalize
from elmo.model import Elmo
from elmo.progress import Advance, progress_bar
from elmo.text.tokenize import tokenize
from elmo.vectors.embed import embed_files
from elmo.vectors.folder import INDEX, VECTORS
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings

_DESCRIPTION, _VERSION = "index.json", 7
_STARTS = "starts.npy"  # position of the first word of each row of the vectors, and the number of words
_WORDS, _WORD_IDS = "words.json", "word_ids.npy"  # the distinct words, and the word id of each occurrence
_SENTENCES_AT_ONCE = 512

Integers: TypeAlias = npt.NDArray[np.int64]


class CorpusIndex:
    """An index on disk of all word occurrences in a corpus. Opening it reads the manifest; files are opened on demand.

    `layers` are the indexed layers; `model_name` is the location of the model, None for the default model.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a folder of vectors with an index; CheckpointError if it is missing or belongs to other vectors."""
        self.folder = Path(folder)
        self.vectors: Vectors = open_folder(self.folder)
        if not (self.folder / INDEX).is_dir():
            raise CheckpointError(f"{self.folder} has no index; build it with elmo neighbors --build {self.folder}.")
        description = read_json(self.folder / INDEX / _DESCRIPTION) or {}
        if (description.get("version"), description.get("vectors")) != (_VERSION, identify(self.vectors.manifest)):
            raise CheckpointError(
                f"The index of {self.folder} is damaged or belongs to other vectors; build it again with elmo "
                f"neighbors --build {self.folder}."
            )
        self.layers: tuple[LayerKey, ...] = tuple(description.get("layers", ()))
        self.model_name: str | None = description.get("model")
        self._vector_files: dict[LayerKey, VectorFile] = {}

    @property
    def num_occurrences(self) -> int:
        """The number of words in the corpus."""
        return self.vectors.counts.num_words

    @property
    def split_on_spaces(self) -> bool:
        """Whether the corpus was split into words at spaces only."""
        return bool(self.vectors.manifest["settings"]["split_on_spaces"])

    def check_model(self, model: Elmo) -> None:
        """Raise InputError if the index was built with another model."""
        _check_model(self.vectors, model, f", {self.model_name or 'the default model at that time'}")

    def search(
        self, vector: Array, layer: LayerKey, *, word: str, words: str = "any", top_k: int = 10
    ) -> list[Neighbor]:
        """Return the occurrences nearest to a vector of length 1, best first.

        `words` is "any", "same" (forms of `word`) or "other". InputError if the layer was not indexed.
        """
        if layer not in self.layers:
            raise InputError(
                f"{self.folder} does not have the layer {layer}, only {', '.join(map(str, self.layers))} (and 0, the "
                "words without sentences); build another index for it."
            )
        with self._reraise_as_damaged():
            mask = None
            if words != "any":
                mask = np.isin(self._word_ids, self._ids_of(word), invert=words == "other")
            nearest = self._vector_file(layer).search(vector, top_k, mask)
            return [Neighbor(self._locate(position), cosine) for position, cosine in nearest]

    def search_words(self, vector: Array, *, exclude: Sequence[str], top_k: int = 10) -> list[StaticNeighbor]:
        """Return the words nearest to a vector of layer 0, best first, without the words in `exclude`."""
        with self._reraise_as_damaged():
            excluded = {word_id for word in exclude for word_id in self._ids_of(word)}
            nearest = self._vector_file(0).search(vector, top_k + len(excluded))
            allowed = [(word_id, cosine) for word_id, cosine in nearest if word_id not in excluded]
            return [StaticNeighbor(self._words[word_id], cosine) for word_id, cosine in allowed[:top_k]]

    def find_occurrences(self, word: str, *, max_occurrences: int, seed: int = 0) -> Occurrences:
        """Return the occurrences of a word, or a random sample of `max_occurrences` of them, in order."""
        with self._reraise_as_damaged():
            tokens = [word]
            if not self._ids_of(word):  # several words, or characters
                tokens = [token.text for token in tokenize(word, get_args(Script))] or tokens
            positions = self._find_phrase(tokens).tolist()
            sample = sorted(random.Random(seed).sample(positions, min(max_occurrences, len(positions))))
            return Occurrences([self._locate(position, len(tokens)) for position in sample], len(positions))

    @contextmanager
    def _reraise_as_damaged(self) -> Iterator[None]:
        try:
            yield
        except ElmoError:  # a library is missing, or the vectors are damaged, not the index
            raise
        except Exception as error:  # the type depends on the damage
            raise CheckpointError(
                f"{self.folder / INDEX} is damaged ({first_line(error):.120}); build it again with elmo neighbors "
                f"--build {self.folder} --force."
            ) from error

    @cached_property
    def _starts(self) -> Integers:
        starts: Integers = np.load(self.folder / INDEX / _STARTS, mmap_mode="r")
        return starts

    @cached_property
    def _word_ids(self) -> npt.NDArray[np.uint32]:
        word_ids: npt.NDArray[np.uint32] = np.load(self.folder / INDEX / _WORD_IDS, mmap_mode="r")
        return word_ids

    @cached_property
    def _words(self) -> list[str]:
        words: list[str] = json.loads((self.folder / INDEX / _WORDS).read_bytes())
        return words

    @cached_property
    def _ids_by_form(self) -> dict[str, list[int]]:
        """The ids of all spellings of a word without case."""
        ids: dict[str, list[int]] = {}
        for word_id, word in enumerate(self._words):
            ids.setdefault(word.casefold(), []).append(word_id)
        return ids

    def _ids_of(self, word: str) -> list[int]:
        return self._ids_by_form.get(word.casefold(), [])

    def _vector_file(self, layer: LayerKey) -> VectorFile:
        """Return the vectors of a layer: one per distinct word for layer 0, one per occurrence for the others."""
        if layer not in self._vector_files:
            num_vectors = len(self._words) if layer == 0 else self.num_occurrences
            self._vector_files[layer] = VectorFile(self.folder / INDEX / _layer_file(layer), num_vectors)
        return self._vector_files[layer]

    def _find_phrase(self, words: Sequence[str]) -> Integers:
        """Return the positions at which these words begin, consecutive and in one sentence."""
        first: Integers = np.flatnonzero(np.isin(self._word_ids, self._ids_of(words[0])))
        last = first + len(words) - 1
        first = first[np.searchsorted(self._starts, first, "right") == np.searchsorted(self._starts, last, "right")]
        for distance, word in enumerate(words[1:], start=1):
            first = first[np.isin(self._word_ids[first + distance], self._ids_of(word))]
        return first

    def _locate(self, position: int, length: int = 1) -> Occurrence:
        number = int(np.searchsorted(self._starts, position, "right")) - 1
        row, inputs = self.vectors[number], self.vectors.manifest["inputs"]
        first_rows = [*itertools.accumulate((file["num_rows"] for file in inputs), initial=0)]
        source = bisect.bisect_right(first_rows, row.index) - 1
        text = row.text or " ".join(row.words)
        sentence = place_words(row.words, text, inputs[source]["name"], row.index - first_rows[source])
        start = position - int(self._starts[number])
        return Occurrence(sentence, start, start + length)


def build_index(
    model: Elmo,
    folder: str | Path,
    files: str | Path | Sequence[str | Path] | None = None,
    *,
    layers: str | int | None = None,
    reading: TextSettings | None = None,
    model_name: str | None = None,
    force: bool = False,
    show_progress_bar: bool = False,
) -> CorpusIndex:
    """Build the index of a folder of vectors, or resume building it, and open it.

    If `files` are given, their vectors are written to the folder first, with embed_files and 8 bits per dimension;
    `layers` and `reading` apply to them. `layers` is a number, "top", "average", "meaning" or "all"; the default is
    meaning, or all for a model without a context layer. Every index contains layer 0, the words without their
    sentences. `force` replaces an existing index and, with `files`, the vectors. `model_name` is recorded, so that a
    search can open the same model. While the index is built, the vectors of one layer are in memory, with one byte per
    dimension.
    """
    require_faiss()
    folder = Path(folder)
    if files is not None:
        reading = reading or TextSettings()
        settings = VectorSettings(
            layers=_choose_stored_layers(layers, model), dtype="int8", split=reading.split, language=reading.language,
            column=reading.field, split_on_spaces=reading.split_on_spaces,
        )  # fmt: skip
        embed_files(model, files, folder, settings, force=force, show_progress_bar=show_progress_bar)
    elif layers is not None or reading is not None:
        raise InputError("layers and reading decide how files are embedded; name the files, or leave them out.")
    vectors = open_folder(folder)
    keys = _list_layers(vectors, model)
    _check_model(vectors, model)
    description = {
        "version": _VERSION, "vectors": identify(vectors.manifest), "model": _absolute(model_name), "layers": keys,
    }  # fmt: skip
    with VECTORS.locked(folder):
        if force or read_json(folder / INDEX / _DESCRIPTION) != description:
            remove(folder / INDEX)
            with (
                progress_bar(unit="words indexed", num_bytes=None, shown=show_progress_bar) as advance,
                atomic_write(folder / INDEX) as temporary,
            ):
                temporary.mkdir()
                _write_index(model, vectors, keys, temporary, advance)
                (temporary / _DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
    return CorpusIndex(folder)


def _write_index(model: Elmo, vectors: Vectors, keys: Sequence[LayerKey], folder: Path, advance: Advance) -> None:
    starts, word_ids, words = _list_words(vectors)
    if not words:
        raise InputError("The text has no words; an index needs some.")
    np.save(folder / _STARTS, starts)
    np.save(folder / _WORD_IDS, word_ids)
    (folder / _WORDS).write_text(json.dumps(words), encoding="utf-8")
    blocks = [words[start : start + 1024] for start in range(0, len(words), 1024)]
    vectors_of_words = np.concatenate([normalize(model.embed([block], layers=0)[0]) for block in blocks])
    write_vectors(folder / _layer_file(0), len(words), vectors_of_words, [vectors_of_words])
    order = np.random.default_rng(0).permutation(len(vectors))
    num_sampled = 1 + int(np.searchsorted(np.cumsum(np.diff(starts)[order]), SAMPLE_SIZE))
    for key in keys:
        sample = np.concatenate([*_read_vectors(vectors, np.sort(order[:num_sampled]).tolist(), key)])
        blocks_of_layer = _read_vectors(vectors, range(len(vectors)), key, advance)
        write_vectors(folder / _layer_file(key), len(word_ids), sample, blocks_of_layer)


def _list_words(vectors: Vectors) -> tuple[Integers, npt.NDArray[np.uint32], list[str]]:
    """Return the start of each row and of the end, the word id of each occurrence, and the distinct words."""
    starts, word_ids, ids = array("q", [0]), array("I"), dict[str, int]()
    for row in vectors:
        word_ids.extend(ids.setdefault(word, len(ids)) for word in row.words)
        starts.append(len(word_ids))
    return np.array(starts, np.int64), np.array(word_ids, np.uint32), list(ids)


def _read_vectors(
    vectors: Vectors, positions: Sequence[int], key: LayerKey, advance: Advance = lambda size, num_pieces=1: None
) -> Iterator[Array]:
    """Yield the vectors of rows in a layer, scaled to length 1, in blocks of many rows."""
    has_all = vectors.manifest["settings"]["layers"] == "all"
    for start in range(0, len(positions), _SENTENCES_AT_ONCE):
        arrays = [vectors[position].vectors for position in positions[start : start + _SENTENCES_AT_ONCE]]
        block = np.concatenate([layers[key] for layers in arrays] if has_all else arrays)
        advance(0, len(block))
        yield normalize(np.asarray(block, np.float32))


def _choose_stored_layers(layers: str | int | None, model: Elmo) -> LayerKey | Literal["all"]:
    layer = "all" if layers == "all" or (layers is None and model.context is None) else choose_layer(layers, model)
    if layer == 0:
        raise InputError("Layer 0, the words without sentences, is in every index; choose another layer, or all.")
    return layer


def _list_layers(vectors: Vectors, model: Elmo) -> list[LayerKey]:
    """Return the layers to index; InputError unless the folder has word vectors of separate layers."""
    unit, layers = vectors.manifest["settings"]["unit"], vectors.manifest["settings"]["layers"]
    if unit != "words":
        raise InputError(f"{vectors.folder} has vectors of {unit}; an index needs vectors of words.")
    if layers == "all":
        return [*range(1, model.num_layers)]
    if isinstance(layers, list) or layers in ("concat", 0):
        raise InputError(f"{vectors.folder} has the layers {layers!r}; an index needs meaning, average, all or one.")
    return [choose_layer(layers, model)]


def _check_model(vectors: Vectors, model: Elmo, name: str = "") -> None:
    """Raise InputError if vectors were computed with another model; `name` follows in the message."""
    hashes, checkpoint = vectors.manifest["model"], model.checkpoint()
    context_hash = hashes.get("context_hash")  # the context layer matters for meaning only
    if hashes["content_hash"] != checkpoint.fingerprint() or context_hash not in (None, checkpoint.context_hash()):
        raise InputError(f"{vectors.folder} was built with another model{name}; name it with --model.")


def _layer_file(layer: LayerKey) -> str:
    return f"layer-{layer}.faiss"


def _absolute(name: str | None) -> str | None:
    """Return the absolute path of a local model, which is valid in any folder; other names are unchanged."""
    return str(Path(name).expanduser().resolve()) if name and Path(name).expanduser().exists() else name
