"""Build and search an index of all word occurrences in a folder of word vectors.

The index is the subfolder `index` of that folder: the words, and one faiss file per layer. The sentences are read
from the folder of vectors.
"""

import json
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, LayerKey, choose_layer
from elmo.analysis.occurrences import Neighbor, Occurrence, Occurrences, StaticNeighbor, TextSettings, place_words
from elmo.analysis.vector_file import SAMPLE_SIZE, VectorFile, require_faiss, write_vectors
from elmo.config import Script
from elmo.errors import CheckpointError, ElmoError, InputError, first_line
from elmo.files.arrays import read_npy
from elmo.files.durable import atomic_write, remove
from elmo.files.work_folder import MANIFEST, identify, read_json, record_file
from elmo.inference.context import normalize
from elmo.model import Elmo
from elmo.progress import progress_bar
from elmo.text.tokenize import tokenize
from elmo.vectors.embed import embed_files
from elmo.vectors.folder import INDEX, VECTORS
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings

_DESCRIPTION = "index.json"
_FORMAT, _VERSION = "modern-elmo-index", 6
_ROWS = "rows.npy"  # per sentence: row in the vectors, input file, number in that file, end of its words
_WORDS, _WORD_IDS = "words.json", "word_ids.npy"  # the distinct words, and the word id of each occurrence
_SENTENCES_AT_ONCE = 512

Integers: TypeAlias = npt.NDArray[np.int64]


def is_index(path: str | Path) -> bool:
    """Return whether a path is a folder of vectors or of an index, complete or not, rather than a text file."""
    return (Path(path) / MANIFEST).is_file() or VECTORS.is_described(Path(path))


class _Tables(NamedTuple):
    """The sentences and words of an index."""

    rows: Integers
    ends: Integers  # position after the last word of each sentence
    word_ids: npt.NDArray[np.uint32]
    words: list[str]
    forms: dict[str, list[int]]  # word without case -> ids of all its spellings


class CorpusIndex:
    """An index on disk of all word occurrences in a corpus. Opening it reads the manifest; files are opened on demand.

    `layers` are the indexed layers; `model_name` is the location of the model, None for the default model.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a folder of vectors with an index; CheckpointError if it is missing or belongs to other vectors."""
        self.folder = Path(folder)
        if (read_json(self.folder / MANIFEST) or {}).get("format") == _FORMAT:
            raise CheckpointError(
                f"{self.folder} is an index of an earlier version; build one in a new folder with elmo neighbors "
                "--build FOLDER --corpus FILE."
            )
        self.vectors: Vectors = open_folder(self.folder)
        if not (self.folder / INDEX).is_dir():
            raise CheckpointError(f"{self.folder} has no index; build it with elmo neighbors --build {self.folder}.")
        description = read_json(self.folder / INDEX / _DESCRIPTION) or {}
        layers, model_name = description.get("layers"), description.get("model")
        if (
            (description.get("version"), description.get("vectors")) != (_VERSION, _identify(self.vectors))
            or not isinstance(layers, list)
            or not isinstance(model_name, str | None)
        ):
            raise CheckpointError(
                f"The index of {self.folder} is damaged or belongs to other vectors; build it again with elmo "
                f"neighbors --build {self.folder}."
            )
        self.layers: tuple[LayerKey, ...] = tuple(layers)
        self.model_name: str | None = model_name
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
        _check_model(self.vectors, model, f", {self.model_name or 'the default model of another version'}")

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
                mask = np.isin(self._tables.word_ids, self._ids_of(word), invert=words == "other")
            nearest = self._vector_file(layer).search(vector, top_k, mask)
            return [Neighbor(self._locate(position), cosine) for position, cosine in nearest]

    def search_words(self, vector: Array, *, exclude: Sequence[str], top_k: int = 10) -> list[StaticNeighbor]:
        """Return the words nearest to a vector of layer 0, best first, without the words in `exclude`."""
        with self._reraise_as_damaged():
            excluded = {word_id for word in exclude for word_id in self._ids_of(word)}
            nearest = self._vector_file(0).search(vector, top_k + len(excluded))
            allowed = [(word_id, cosine) for word_id, cosine in nearest if word_id not in excluded]
            return [StaticNeighbor(self._tables.words[word_id], cosine) for word_id, cosine in allowed[:top_k]]

    def find_occurrences(self, word: str, *, max_occurrences: int, seed: int = 0) -> Occurrences:
        """Return the occurrences of a word, or a random sample of `max_occurrences` of them, in order."""
        with self._reraise_as_damaged():
            tokens = [word]
            if not self._ids_of(word):  # several words, or characters
                tokens = [token.text for token in tokenize(word, get_args(Script))] or tokens
            positions = self._find_phrase(tokens).tolist()
            sample = positions
            if len(positions) > max_occurrences:
                sample = sorted(random.Random(seed).sample(positions, max_occurrences))
            return Occurrences([self._locate(position, len(tokens)) for position in sample], len(positions))

    @contextmanager
    def _reraise_as_damaged(self) -> Iterator[None]:
        try:
            yield
        except ElmoError:  # a library is missing, or the vectors are damaged, not the index
            raise
        except Exception as error:  # the type depends on the damage
            raise CheckpointError(
                f"{self.folder} is damaged ({first_line(error):.120}); build the index again."
            ) from error

    @cached_property
    def _tables(self) -> _Tables:
        folder = self.folder / INDEX
        rows, word_ids = read_npy(folder / _ROWS), read_npy(folder / _WORD_IDS)
        if rows.dtype != np.int64 or rows.shape[1:] != (4,) or rows[-1, 3] != self.num_occurrences:
            raise ValueError(f"{_ROWS} does not describe the sentences")
        if word_ids.dtype != np.uint32 or word_ids.shape != (self.num_occurrences,):
            raise ValueError(f"{_WORD_IDS} does not describe the words")
        words = json.loads((folder / _WORDS).read_bytes())
        forms: dict[str, list[int]] = {}
        for word_id, word in enumerate(words):
            forms.setdefault(word.casefold(), []).append(word_id)
        return _Tables(rows, np.ascontiguousarray(rows[:, 3]), word_ids, words, forms)

    def _ids_of(self, word: str) -> list[int]:
        return self._tables.forms.get(word.casefold(), [])

    def _vector_file(self, layer: LayerKey) -> VectorFile:
        """Return the vectors of a layer: one per distinct word for layer 0, one per occurrence for the others."""
        if layer not in self._vector_files:
            num_vectors = len(self._tables.words) if layer == 0 else self.num_occurrences
            self._vector_files[layer] = VectorFile(self.folder / INDEX / _layer_file(layer), num_vectors)
        return self._vector_files[layer]

    def _find_phrase(self, words: Sequence[str]) -> Integers:
        """Return the positions at which these words begin, consecutive and in one sentence."""
        word_ids, ends = self._tables.word_ids, self._tables.ends
        first: Integers = np.flatnonzero(np.isin(word_ids, self._ids_of(words[0])))
        last = first + len(words) - 1
        first = first[np.searchsorted(ends, first, "right") == np.searchsorted(ends, last, "right")]
        for distance, word in enumerate(words[1:], start=1):
            first = first[np.isin(word_ids[first + distance], self._ids_of(word))]
        return first

    def _locate(self, position: int, length: int = 1) -> Occurrence:
        """Return the occurrence at a position among all words of the corpus."""
        rows, ends = self._tables.rows, self._tables.ends
        number = int(np.searchsorted(ends, position, side="right"))
        row_position, source, number_in_source, _ = rows[number].tolist()
        row, source_name = self.vectors[row_position], self.vectors.manifest["inputs"][source]["name"]
        sentence = place_words(row.words, row.text or " ".join(row.words), source_name, number_in_source)
        start = position - (int(ends[number - 1]) if number else 0)
        word_ids = self._tables.word_ids[position : position + length]
        if row.words[start : start + length] != [self._tables.words[word_id] for word_id in word_ids]:
            raise ValueError(f"{_ROWS} does not describe the sentences")
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
    `layers`, `reading` and `force` apply to them. `layers` is a number, "top", "average", "meaning" or "all"; the
    default is meaning, or all for a model without a context layer. Every index contains layer 0, the words without
    their sentences. `model_name` is recorded, so that a search can open the same model. While the index is built, the
    vectors of one layer are in memory, with one byte per dimension.
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
    elif layers is not None or reading is not None or force:
        raise InputError("layers, reading and force decide how files are embedded; name the files, or leave them out.")
    vectors = open_folder(folder)
    keys = _list_layers(vectors, model)
    _check_model(vectors, model)
    description = {
        "format": _FORMAT, "version": _VERSION, "vectors": _identify(vectors), "model": _absolute(model_name),
        "layers": keys,
    }  # fmt: skip
    with VECTORS.locked(folder):
        if read_json(folder / INDEX / _DESCRIPTION) != {**description, "files": _record_files(folder / INDEX)}:
            remove(folder / INDEX)
            with (
                progress_bar(unit="words indexed", num_bytes=None, shown=show_progress_bar) as advance,
                atomic_write(folder / INDEX) as temporary,
            ):
                temporary.mkdir()
                _write_index(model, vectors, keys, temporary, advance)
                values = {**description, "files": _record_files(temporary)}
                (temporary / _DESCRIPTION).write_text(json.dumps(values), encoding="utf-8")
    return CorpusIndex(folder)


def _record_files(folder: Path) -> dict[str, Any]:
    """Return the sizes and checksums of the files of an index, except its description."""
    return {path.name: record_file(path) for path in folder.glob("*") if path.name != _DESCRIPTION and path.is_file()}


def _write_index(
    model: Elmo, vectors: Vectors, keys: Sequence[LayerKey], folder: Path, advance: Callable[[int, int], None]
) -> None:
    rows, word_ids, words = _list_words(vectors)
    if not words:
        raise InputError("The text has no words; an index needs some.")
    np.save(folder / _ROWS, rows)
    np.save(folder / _WORD_IDS, word_ids)
    (folder / _WORDS).write_text(json.dumps(words), encoding="utf-8")
    blocks = [words[start : start + 1024] for start in range(0, len(words), 1024)]
    vectors_of_words = np.concatenate([normalize(model.embed([block], layers=0)[0]) for block in blocks])
    write_vectors(folder / _layer_file(0), len(words), vectors_of_words, [vectors_of_words])
    lengths = np.diff(rows[:, 3], prepend=0)
    order = np.random.default_rng(0).permutation(len(rows))
    num_sampled = 1 + int(np.searchsorted(np.cumsum(lengths[order]), SAMPLE_SIZE))
    for key in keys:
        sample = np.concatenate([*_read_vectors(vectors, rows[np.sort(order[:num_sampled])], key)])
        write_vectors(folder / _layer_file(key), len(word_ids), sample, _read_vectors(vectors, rows, key, advance))


def _list_words(vectors: Vectors) -> tuple[Integers, npt.NDArray[np.uint32], list[str]]:
    """Return the table of non-empty sentences, the word id of each occurrence, and the distinct words."""
    rows, word_ids, ids = array("q"), array("I"), dict[str, int]()
    ends = np.cumsum([file["num_rows"] for file in vectors.manifest["inputs"]])
    counts = [0] * len(ends)
    for position, row in enumerate(vectors):
        if row.words:
            source = int(np.searchsorted(ends, row.index, side="right"))
            word_ids.extend(ids.setdefault(word, len(ids)) for word in row.words)
            rows.extend((position, source, counts[source], len(word_ids)))
            counts[source] += 1
    return np.array(rows, np.int64).reshape(-1, 4), np.array(word_ids, np.uint32), list(ids)


def _read_vectors(
    vectors: Vectors, rows: Integers, key: LayerKey, advance: Callable[[int, int], None] = lambda size, num_pieces: None
) -> Iterator[Array]:
    """Yield the vectors of sentences in a layer, scaled to length 1, in blocks of many sentences."""
    has_all = _stored_layers(vectors) == "all"
    for start in range(0, len(rows), _SENTENCES_AT_ONCE):
        arrays = [vectors[position].vectors for position in rows[start : start + _SENTENCES_AT_ONCE, 0].tolist()]
        block = np.concatenate([layers[key] for layers in arrays] if has_all else arrays)
        advance(0, len(block))
        yield normalize(np.asarray(block, np.float32))


def _choose_stored_layers(layers: str | int | None, model: Elmo) -> LayerKey | str:
    """Return the layer to store for an index, or "all"."""
    if layers == "all" or (layers is None and model.context is None):
        return "all"
    layer = choose_layer(layers, model)
    if layer == 0:
        raise InputError("Layer 0, the words without sentences, is in every index; choose another layer, or all.")
    return layer


def _stored_layers(vectors: Vectors) -> Any:
    return vectors.manifest["settings"]["layers"]


def _list_layers(vectors: Vectors, model: Elmo) -> list[LayerKey]:
    """Return the layers to index; InputError unless the folder has word vectors of separate layers."""
    unit, layers = vectors.manifest["settings"]["unit"], _stored_layers(vectors)
    if unit != "words":
        raise InputError(f"{vectors.folder} has vectors of {unit}; an index needs vectors of words.")
    if layers == "all":
        return [*range(1, model.num_layers)]
    if isinstance(layers, list) or layers in ("concat", 0):
        raise InputError(f"{vectors.folder} has the layers {layers!r}; an index needs meaning, average, all or one.")
    return [choose_layer(layers, model)]


def _check_model(vectors: Vectors, model: Elmo, name: str = "") -> None:
    """Raise InputError if vectors were computed with another model; `name` follows in the message."""
    made_with = vectors.manifest["model"]
    context_hash = made_with.get("context_hash")  # the context layer matters for meaning only
    checkpoint = model.checkpoint()
    if made_with["content_hash"] != checkpoint.fingerprint() or context_hash not in (None, checkpoint.context_hash()):
        raise InputError(f"{vectors.folder} was built with another model{name}; name it with --model.")


def _identify(vectors: Vectors) -> str:
    """Return the hash by which an index refers to its vectors."""
    return identify(vectors.manifest)


def _layer_file(layer: LayerKey) -> str:
    return f"layer-{layer}.faiss"


def _absolute(name: str | None) -> str | None:
    """Return the absolute path of a local model, which is valid in any folder; other names are unchanged."""
    return str(Path(name).expanduser().resolve()) if name and Path(name).expanduser().exists() else name
