"""Text files or a vectors folder -> an index of every word's occurrences, and the search in it.

An index is a folder with manifest.json and the folder that is searched: the words and one faiss file per layer. Text
files become a vectors folder inside the index first, as `elmo embed` writes it; an existing vectors folder is read
where it is.
"""

import dataclasses
import json
import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import (
    Array,
    LayerKey,
    choose_layer,
    choose_layers,
    group_layers,
    normalize,
    settings_for,
)
from elmo.analysis.occurrences import (
    CorpusSentence,
    Neighbor,
    Occurrence,
    Occurrences,
    StaticNeighbor,
    TextSettings,
    find_corpus,
    join_words,
    split_word,
    tokenizer_of,
)
from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.config import parse
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.extras import require
from elmo.files.arrays import read_npy
from elmo.files.durable import atomic_write, holding, is_vacant, remove, replace_file
from elmo.model import Elmo
from elmo.progress import progress_bar
from elmo.vectors.embed import embed_files
from elmo.vectors.folder import VECTORS
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings

MANIFEST = "manifest.json"
_FORMAT, _VERSION = "modern-elmo-index", 5
_SEARCH = "search"
# Of each sentence: its vectors folder, its row there, its file there, its number in the file, the end of its words.
_ROWS = "rows.npy"
_WORDS, _WORD_IDS = "words.json", "word_ids.npy"  # the distinct words, and the one of each occurrence
_CELLS_SEARCHED, _MOST_CELLS = 48, 4096
_POINTS_PER_CELL = 64  # to learn its centre from
_KMEANS_ROUNDS = 8
_SENTENCES_AT_ONCE = 512
_FEW = 4000  # occurrences that are all compared, whatever their cells

Mask: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Manifest:
    """The description of an index."""

    model: str | None  # where the model was; None: the default one
    model_hash: str
    context_hash: str | None  # of the model's context layer, if "meaning" is among the layers
    layers: tuple[LayerKey, ...]
    reading: TextSettings
    folders: tuple[tuple[str, ...], ...] = ()  # of vectors; those of the same rows in other layers are together
    search: str | None = None  # name of the folder that is searched; None while the index is built
    num_occurrences: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"format": _FORMAT, "version": _VERSION, **dataclasses.asdict(self)}


def is_index(path: str | Path) -> bool:
    """Return whether this is a folder with a manifest, which is not that of a vectors folder."""
    return (Path(path) / MANIFEST).is_file() and not VECTORS.is_described(Path(path))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index; CheckpointError if the folder holds something else."""
    path, advice = folder / MANIFEST, "build one with elmo neighbors --build INDEX --corpus FILE."
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if content.pop("format", None) != _FORMAT:
            raise CheckpointError(f"{folder} is not an index of occurrences; {advice}")
        if (version := content.pop("version")) != _VERSION:
            raise CheckpointError(f"{folder} is an index of version {version!r}, not {_VERSION}; {advice}")
        layers = tuple(content["layers"])  # numbers and names, which `parse` does not mix
        return dataclasses.replace(parse(Manifest, {**content, "layers": ()}, "it"), layers=layers)
    except (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({first_line(error)}); build the index again.") from error


class _Tables(NamedTuple):
    """Where the sentences and words of an index are."""

    rows: Integers
    ends: Integers  # of the words of each sentence
    word_ids: npt.NDArray[np.uint32]
    words: list[str]
    forms: dict[str, list[int]]  # the ids of all words that are equal except for upper and lower case


class CorpusIndex:
    """Every word of some texts with its vectors, on disk. Opening it reads only the manifest."""

    def __init__(self, folder: str | Path) -> None:
        """Open the index in a folder; CheckpointError if there is none."""
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        if self.manifest.search is None:
            raise CheckpointError(f"{self.folder} is an index without words; run the command that builds it again.")
        self._search_folder = self.folder / self.manifest.search
        self._layers: dict[LayerKey, VectorFile] = {}

    @property
    def num_occurrences(self) -> int:
        """The number of words in its texts."""
        return self.manifest.num_occurrences

    def check_model(self, model: Elmo) -> None:
        """Raise InputError if it was built with another model."""
        manifest = self.manifest  # the context layer matters for meaning only
        if manifest.model_hash != fingerprint(model) or manifest.context_hash not in (None, context_fingerprint(model)):
            built_with = manifest.model or "the default model of another version"
            raise InputError(f"{self.folder} was built with another model, {built_with}; name it with --model.")

    def check_layers(self, layers: Sequence[LayerKey]) -> None:
        """Raise InputError for a layer that was not indexed."""
        known = self.manifest.layers
        for layer in layers:
            if layer not in (0, *known):
                raise InputError(
                    f"{self.folder} does not have the layer {layer}, only {', '.join(map(str, known))} (and 0, the "
                    "words without sentences); build another index for it."
                )

    def search(
        self, vector: Array, layer: LayerKey, *, word: str, words: str = "any", top_k: int = 10
    ) -> list[Neighbor]:
        """Return the occurrences nearest to a vector of length 1, best first.

        `words` is "any", "same" (forms of `word`) or "other".
        """
        with self._reraise_as_damaged():
            mask = None
            if words != "any":
                mask = np.isin(self._tables.word_ids, self._ids_of(word), invert=words == "other")
            nearest = self._vectors(layer).search(vector, top_k, mask)
            return [Neighbor(self._locate(position), cosine) for position, cosine in nearest]

    def search_words(self, vector: Array, *, exclude: Sequence[str], top_k: int = 10) -> list[StaticNeighbor]:
        """Return the words nearest to a vector of layer 0, best first, without those excluded."""
        with self._reraise_as_damaged():
            excluded = {word_id for word in exclude for word_id in self._ids_of(word)}
            nearest = self._vectors(0).search(vector, top_k + len(excluded))
            allowed = [(word_id, cosine) for word_id, cosine in nearest if word_id not in excluded]
            return [StaticNeighbor(self._tables.words[word_id], cosine) for word_id, cosine in allowed[:top_k]]

    def find_occurrences(self, word: str, *, max_occurrences: int, seed: int = 0) -> Occurrences:
        """Return the occurrences of a word, or a random sample of `max_occurrences` of them, in order."""
        tokens = split_word(word, self.manifest.reading)
        with self._reraise_as_damaged():
            positions = self._find(tokens).tolist()
            sample = positions
            if len(positions) > max_occurrences:
                sample = sorted(random.Random(seed).sample(positions, max_occurrences))
            return Occurrences([self._locate(position, len(tokens)) for position in sample], len(positions))

    @contextmanager
    def _reraise_as_damaged(self) -> Iterator[None]:
        try:
            yield
        except ConfigError:  # a library is missing
            raise
        except Exception as error:  # which one depends on the byte that is wrong
            raise CheckpointError(
                f"{self.folder} is damaged ({first_line(error):.120}); build the index again."
            ) from error

    @cached_property
    def _tables(self) -> _Tables:
        folder = self._search_folder
        rows, word_ids = read_npy(folder / _ROWS), read_npy(folder / _WORD_IDS)
        if rows.dtype != np.int64 or rows.shape[1:] != (5,) or rows[-1, 4] != self.num_occurrences:
            raise ValueError(f"{_ROWS} does not describe the sentences")
        if word_ids.dtype != np.uint32 or word_ids.shape != (self.num_occurrences,):
            raise ValueError(f"{_WORD_IDS} does not describe the words")
        words = json.loads((folder / _WORDS).read_bytes())
        forms: dict[str, list[int]] = {}
        for word_id, word in enumerate(words):
            forms.setdefault(word.casefold(), []).append(word_id)
        return _Tables(rows, np.ascontiguousarray(rows[:, 4]), word_ids, words, forms)

    def _ids_of(self, word: str) -> list[int]:
        return self._tables.forms.get(word.casefold(), [])

    def _vectors(self, layer: LayerKey) -> "VectorFile":
        """Return the vectors of a layer: of the distinct words for layer 0, of the occurrences for the others."""
        if layer not in self._layers:
            num_vectors = len(self._tables.words) if layer == 0 else self.num_occurrences
            self._layers[layer] = VectorFile(self._search_folder / _layer_file(layer), num_vectors)
        return self._layers[layer]

    def _find(self, words: Sequence[str]) -> Integers:
        """Return the positions of the first word where all these words stand in a row in one sentence."""
        word_ids, ends = self._tables.word_ids, self._tables.ends
        first: Integers = np.flatnonzero(np.isin(word_ids, self._ids_of(words[0])))
        last = first + len(words) - 1
        first = first[np.searchsorted(ends, first, "right") == np.searchsorted(ends, last, "right")]
        for distance, word in enumerate(words[1:], start=1):
            first = first[np.isin(word_ids[first + distance], self._ids_of(word))]
        return first

    def _locate(self, position: int, length: int = 1) -> Occurrence:
        """Return an occurrence by its position among all words."""
        rows, ends, reading = self._tables.rows, self._tables.ends, self.manifest.reading
        number = int(np.searchsorted(ends, position, side="right"))
        folder, row_position, source, number_in_source, _ = rows[number].tolist()
        row = self._folders[folder][row_position]
        source_name = self._folders[folder].manifest["inputs"][source]["name"]
        sentence = CorpusSentence.tokenize(row.text or "", tokenizer_of(reading), source_name, number_in_source)
        if sentence.words != row.words:  # of other settings, or of words without a text
            sentence = join_words(row.words, source_name, number_in_source)
        start = position - (int(ends[number - 1]) if number else 0)
        return Occurrence(sentence, start, start + length)

    @cached_property
    def _folders(self) -> list[Vectors]:
        return [open_folder(self.folder / paths[0]) for paths in self.manifest.folders]


def write_vectors(path: Path, num_vectors: int, sample: Array, blocks: Iterable[Array]) -> None:
    """Write vectors of length 1 in blocks (N, D) to a file that VectorFile searches.

    They are stored by faiss with 8 bits per dimension in cells (inverted lists), whose centres are learned from the
    sample.
    """
    faiss = require_faiss()
    num_cells = max(1, min(round(num_vectors**0.5), num_vectors // _POINTS_PER_CELL, _MOST_CELLS))
    index = faiss.index_factory(sample.shape[1], f"IVF{num_cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.by_residual = False
    index.cp.niter, index.cp.max_points_per_centroid = _KMEANS_ROUNDS, _POINTS_PER_CELL
    index.cp.min_points_per_centroid = 1  # with few vectors it would print a warning
    index.train(np.ascontiguousarray(sample, dtype=np.float32))
    for block in blocks:
        index.add(np.ascontiguousarray(block, dtype=np.float32))
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # which hides the OSError
        raise InputError(f"{path} could not be written ({first_line(error):.120}); free some space.") from error


class VectorFile:
    """A file of write_vectors, memory-mapped."""

    def __init__(self, path: Path, num_vectors: int) -> None:
        """Open the file; ValueError or another error of reading if it is damaged."""
        faiss = require_faiss()
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except RuntimeError:  # Windows cannot map the lists
            index = faiss.read_index(str(path))
        # faiss would read beyond the end of the file.
        if (
            not isinstance(index, faiss.IndexIVFScalarQuantizer)
            or index.ntotal != num_vectors
            or sum(index.invlists.list_size(cell) for cell in range(index.nlist)) != num_vectors
            or num_vectors * (index.code_size + 8) > path.stat().st_size
        ):
            raise ValueError(f"{path.name} does not hold its vectors")
        self._index = index

    def search(self, vector: Array, top_k: int, mask: Mask | None = None) -> list[tuple[int, float]]:
        """Return the positions and cosines of the nearest vectors that `mask` lets through, best first.

        The vectors in the nearest cells are compared; all of them if few are allowed or too few are in these cells.
        """
        faiss = require_faiss()
        num_allowed = self._index.ntotal if mask is None else int(mask.sum())
        top_k = min(top_k, num_allowed)
        if top_k < 1:
            return []
        bits = None if mask is None else np.packbits(mask, bitorder="little")  # which the selector does not copy
        selector = None if bits is None else faiss.IDSelectorBitmap(bits)
        nearest: list[tuple[int, float]] = []
        for num_cells in ([] if num_allowed <= _FEW else [_CELLS_SEARCHED]) + [self._index.nlist]:
            settings = faiss.SearchParametersIVF(sel=selector, nprobe=num_cells)
            cosines, positions = self._index.search(vector[None].astype(np.float32), top_k, params=settings)
            pairs = zip(positions[0].tolist(), cosines[0].tolist(), strict=True)
            nearest = [(position, min(1.0, cosine)) for position, cosine in pairs if position >= 0]
            if len(nearest) == top_k:
                break
        return nearest


def build_index(
    model: Elmo,
    folder: str | Path,
    names: Sequence[str],
    *,
    layers: Sequence[str | int] | None = None,
    reading: TextSettings | None = None,
    model_name: str | None = None,
    show_progress_bar: bool = False,
) -> CorpusIndex:
    """Build an index of text files or of one vectors folder, or resume its build; return it opened.

    `layers` are numbers, "top", "average" or "meaning"; by default meaning, or every layer above 0 for a model
    without a context layer (layer 0, the words without sentences, is always included). A vectors folder is read, not
    embedded again; by default all its layers are indexed. `model_name` is recorded, to open the same model for a
    search. While it is built, the vectors of a layer are in memory, one byte per dimension.
    """
    require_faiss()
    folder, stored = Path(folder), _open_vectors(names, model)
    keys = tuple(key for key in choose_layers(layers, model) if key != 0) or choose_layers(None, model)
    if stored is None:
        find_corpus(names)
        groups = {f"vectors-{group}": group for group in group_layers(keys)}
        paths = tuple(groups)
    else:
        known = _layers_of(stored, model)
        keys = keys if layers else known
        if missing := set(keys) - set(known):
            raise InputError(f"{stored.folder} does not have the layer {missing.pop()}, only {known}.")
        groups, paths = {}, (str(stored.folder.resolve()),)
    context_hash = context_fingerprint(model) if "meaning" in keys else None
    reading = settings_for(model, reading)
    manifest = Manifest(_absolute(model_name), fingerprint(model), context_hash, keys, reading, (paths,))
    if not is_index(folder) and not is_vacant(folder):
        raise InputError(f"{folder} exists and is not an index; give a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder, f"Another process is building {folder}; wait until it is done."):
        if is_index(folder):
            started = read_manifest(folder)
            if dataclasses.replace(started, model=manifest.model, search=None, num_occurrences=0) != manifest:
                raise InputError(f"{folder} has another model, text, layers or settings; build a new index.")
            manifest = started
        else:
            _save(folder, manifest)  # first, because only in the folder of an index may files be replaced
        for path, group in groups.items():
            settings = VectorSettings(
                layers=group, dtype="int8", split=reading.split, language=reading.language, column=reading.field,
                split_on_spaces=reading.split_on_spaces,
            )  # fmt: skip
            embed_files(model, names, folder / path, settings, show_progress_bar=show_progress_bar)
        if manifest.search is None:
            _save(folder, _write_search(model, folder, manifest, show_progress_bar=show_progress_bar))
    return CorpusIndex(folder)


def _save(folder: Path, manifest: Manifest) -> None:
    replace_file(folder / MANIFEST, json.dumps(manifest.to_dict(), ensure_ascii=False, indent=1).encode())


def _write_search(model: Elmo, folder: Path, manifest: Manifest, *, show_progress_bar: bool) -> Manifest:
    """Write the folder that is searched, and return the manifest that names it."""
    opened = [open_folder(folder / path) for path in manifest.folders[0]]
    remove(folder / _SEARCH)  # of a process that was killed before it wrote the manifest
    with (
        progress_bar(unit="words indexed", num_bytes=None, shown=show_progress_bar) as advance,
        atomic_write(folder / _SEARCH) as temporary,
    ):
        temporary.mkdir()
        rows, word_ids, words = _list_words(opened[0])
        if not words:
            raise InputError("The text has no words; an index needs some.")
        np.save(temporary / _ROWS, rows)
        np.save(temporary / _WORD_IDS, word_ids)
        (temporary / _WORDS).write_text(json.dumps(words), encoding="utf-8")
        blocks = [words[start : start + 1024] for start in range(0, len(words), 1024)]
        vectors_of_words = np.concatenate([normalize(model.embed([block], layers=0)[0]) for block in blocks])
        write_vectors(temporary / _layer_file(0), len(words), vectors_of_words, [vectors_of_words])
        lengths = np.diff(rows[:, 4], prepend=0)
        order = np.random.default_rng(0).permutation(len(rows))
        num_sampled = 1 + int(np.searchsorted(np.cumsum(lengths[order]), _MOST_CELLS * _POINTS_PER_CELL))
        for key in manifest.layers:
            sample = np.concatenate(list(_read_vectors(opened, rows[np.sort(order[:num_sampled])], key)))
            blocks_of_layer = _read_vectors(opened, rows, key, advance)
            write_vectors(temporary / _layer_file(key), len(word_ids), sample, blocks_of_layer)
    return dataclasses.replace(manifest, search=_SEARCH, num_occurrences=len(word_ids))


def _list_words(vectors: Vectors) -> tuple[Integers, npt.NDArray[np.uint32], list[str]]:
    """Return the table of sentences with words, the word of each occurrence, and the distinct words."""
    rows, word_ids, ids = array("q"), array("I"), dict[str, int]()
    ends = np.cumsum([file["num_rows"] for file in vectors.manifest["inputs"]])
    counts = [0] * len(ends)
    for position, row in enumerate(vectors):
        if row.words:
            source = int(np.searchsorted(ends, row.index, side="right"))
            word_ids.extend(ids.setdefault(word, len(ids)) for word in row.words)
            rows.extend((0, position, source, counts[source], len(word_ids)))
            counts[source] += 1
    return np.array(rows, np.int64).reshape(-1, 5), np.array(word_ids, np.uint32), list(ids)


def _read_vectors(
    opened: Sequence[Vectors],
    rows: Integers,
    key: LayerKey,
    advance: Callable[[int, int], None] = lambda size, num_pieces: None,
) -> Iterator[Array]:
    """Yield the vectors of sentences in a layer, of length 1, those of many sentences at once."""
    by_layers = {str(vectors.manifest["settings"]["layers"]): vectors for vectors in opened}
    # A folder may name its only layer otherwise, as in "top".
    vectors = by_layers.get(str(key), by_layers.get("all", opened[0]))
    has_all = by_layers.get("all") is vectors
    for start in range(0, len(rows), _SENTENCES_AT_ONCE):
        arrays = [vectors[position].vectors for position in rows[start : start + _SENTENCES_AT_ONCE, 1].tolist()]
        if has_all:
            arrays = [layers.mean(axis=0) if key == "average" else layers[key] for layers in arrays]
        block = np.concatenate(arrays)
        advance(0, len(block))
        yield normalize(np.asarray(block, np.float32))


def _open_vectors(names: Sequence[str], model: Elmo) -> Vectors | None:
    """Open the vectors folder that was named; None for text files, InputError if an index cannot be built over it."""
    if not any(VECTORS.is_described(Path(name)) for name in names):
        return None
    if len(names) > 1:
        raise InputError("An index has the words of text files or of one vectors folder; name one folder alone.")
    vectors = open_folder(names[0])
    values = vectors.manifest
    if values["settings"]["unit"] != "words":
        raise InputError(f"{names[0]} has vectors of {values['settings']['unit']}; an index needs those of words.")
    if values["model"]["content_hash"] != fingerprint(model):
        raise InputError(f"{names[0]} was made with another model; name it with --model.")
    return vectors


def _layers_of(vectors: Vectors, model: Elmo) -> tuple[LayerKey, ...]:
    """Return the layers that a vectors folder has, without layer 0."""
    stored = vectors.manifest["settings"]["layers"]
    if stored == "all":
        return tuple(range(1, model.num_layers))
    if isinstance(stored, list) or stored in ("concat", 0):
        raise InputError(
            f"{vectors.folder} has the layers {stored!r}; an index needs meaning, average, all, top or a number."
        )
    return (choose_layer(stored, model),)


def _layer_file(layer: LayerKey) -> str:
    return f"layer-{layer}.faiss"


def _absolute(name: str | None) -> str | None:
    """Return a model's name such that it is found from another folder too."""
    return str(Path(name).expanduser().resolve()) if name and Path(name).expanduser().exists() else name


def require_faiss() -> Any:
    """Return the library; ConfigError with the extra to install if it is missing."""
    return require("faiss", "analysis", "An index of occurrences")
