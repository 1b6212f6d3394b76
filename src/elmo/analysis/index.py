"""Text files or vectors folders -> an index of every word's occurrences, and the search in it.

An index is a folder with manifest.json, the vectors folders of its texts, and the folder that is searched. Text files
become a vectors folder inside the index first, as `elmo embed` makes it; an existing vectors folder is read where it
is. Adding files rewrites the faiss files; they are used once the manifest lists them.
"""

import dataclasses
import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from elmo.analysis.layers import Array, LayerKey, choose_layer, choose_layers, normalize, settings_for
from elmo.analysis.occurrences import (
    CorpusSentence,
    Occurrence,
    Occurrences,
    TextSettings,
    find_corpus,
    is_same_word,
    join_words,
    sample_some,
    split_word,
)
from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.config import parse
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.extras import require
from elmo.files.arrays import read_npy
from elmo.files.durable import atomic_write, holding, is_vacant, remove, replace_file
from elmo.files.sources import InputFile
from elmo.model import Elmo
from elmo.progress import progress_bar
from elmo.text.sentence_input import Sentence
from elmo.text.units import Tokenization
from elmo.vectors.embed import embed_files
from elmo.vectors.folder import VECTORS
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings

MANIFEST = "manifest.json"
_FORMAT, _VERSION = "modern-elmo-index", 4
_SEARCH_NAME = re.compile(r"search-\d{4,}")
# Of each sentence: its vectors folder, its row there, its file, its number in the file, the end of its occurrences.
_ROWS = "rows.npy"
_WORDS, _WORD_IDS = "words.json", "word_ids.npy"  # the distinct words, and the one of each occurrence
_NO_LIMIT = 2**62
_CELLS_SEARCHED, _MOST_CELLS = 48, 4096
_POINTS_PER_CELL = 64  # to learn its centre from
_KMEANS_ROUNDS = 8
_VECTORS_AT_ONCE = 16_384
_FEW = 4000  # occurrences that are all compared, whatever their cells
# What reading damaged files raises, depending on which byte is wrong. InputError: of a vectors folder.
_DAMAGE = (
    OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, OverflowError, RuntimeError,
    InputError,
)  # fmt: skip

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SourceRecord:
    """A file that was indexed, and its checksum."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The description of an index."""

    model: str | None  # where the model was; None: the default one
    model_hash: str
    num_layers: int
    layers: tuple[LayerKey, ...]
    reading: TextSettings
    sources: tuple[SourceRecord, ...] = ()
    # The vectors folders; those with the same rows in different layers are together.
    folders: tuple[tuple[str, ...], ...] = ()
    search: str | None = None  # name of the folder that is searched
    num_occurrences: int = 0
    context_hash: str | None = None  # of the model's context layer, if "meaning" is among the layers

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

    def is_of(self, model_hash: str, context_hash: str | None) -> bool:
        """Return whether it was built with the model of these hashes; the context layer's matters for meaning."""
        return self.manifest.model_hash == model_hash and self.manifest.context_hash in (None, context_hash)

    def check_model(self, model: Elmo) -> None:
        """Raise InputError if it was built with another model."""
        if not self.is_of(fingerprint(model), context_fingerprint(model)):
            built_with = self.manifest.model or "the default model of another version"
            raise InputError(f"{self.folder} was built with another model, {built_with}; name it with --model.")

    def check_layers(self, layers: Sequence[LayerKey]) -> None:
        """Raise InputError for a layer that was not indexed."""
        for layer in layers:
            if layer not in self.manifest.layers:
                known = ", ".join(map(str, self.manifest.layers))
                raise InputError(
                    f"{self.folder} does not have the layer {layer}, only {known} (and 0, the words without "
                    "sentences); build another index for it."
                )

    def search(
        self,
        vector: Array,
        layer: LayerKey,
        *,
        word: str,
        words: str = "any",
        top_k: int = 10,
    ) -> list[tuple[Occurrence, float]]:
        """Return the occurrences nearest to a vector of length 1 and their cosines, best first.

        `words` is "any", "same" (forms of `word`) or "other".
        """
        with self._reraise_as_damaged():
            mask = None if words == "any" else np.isin(self._word_ids, self._ids_of(word), invert=words == "other")
            nearest = self._vectors(layer).search(vector, top_k, mask)
            return [(self._locate(number), cosine) for number, cosine in nearest]

    def most_similar(
        self, model: Elmo, sentence: Sentence, *, topn: int = 10, layer: str | int | None = None
    ) -> list[tuple[str, float]]:
        """Return the occurrences nearest to the [marked] word, as marked sentences with their cosines, best first.

        The short form of find_neighbors, with the shape of gensim's most_similar. `layer` is the first one indexed
        if not given.
        """
        from elmo.analysis.neighbors import find_neighbors

        layers = [self.manifest.layers[0] if layer is None else layer]
        neighbors = find_neighbors(model, sentence, self, layers=layers, top_k=topn).layers[0].neighbors
        return [(neighbor.occurrence.mark(), neighbor.cosine) for neighbor in neighbors]

    def search_words(self, vector: Array, *, word: str, top_k: int = 10) -> list[tuple[str, float]]:
        """Return the words nearest to a vector of layer 0 and their cosines, best first, without `word`."""
        with self._reraise_as_damaged():
            nearest = self._vectors(0).search(vector, top_k + len(self._ids_of(word)))
            similar = [(self._words[number], cosine) for number, cosine in nearest]
        return [pair for pair in similar if not is_same_word(pair[0], word)][:top_k]

    def find_occurrences(self, word: str, *, max_occurrences: int, seed: int = 0) -> Occurrences:
        """Return the occurrences of a word, or a random sample of `max_occurrences` of them, in order."""
        parts = split_word(word, self.manifest.reading)
        with self._reraise_as_damaged():
            numbers = self._find(parts).tolist()
            sampled = sorted(sample_some(numbers, max_occurrences, seed))
            return Occurrences([self._locate(number, len(parts)) for number in sampled], len(numbers))

    @contextmanager
    def _reraise_as_damaged(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise CheckpointError(
                f"{self.folder} is damaged ({first_line(error):.120}); build the index again."
            ) from error

    @cached_property
    def _rows(self) -> Numbers:
        rows = read_npy(self._search_folder / _ROWS)
        if rows.ndim != 2 or rows.shape[1] != 5 or rows.dtype != np.int64 or rows[-1, 4] != self.num_occurrences:
            raise ValueError(f"{_ROWS} does not describe the sentences")
        return rows

    @cached_property
    def _ends(self) -> Numbers:
        return np.ascontiguousarray(self._rows[:, 4])

    @cached_property
    def _word_ids(self) -> npt.NDArray[np.uint32]:
        ids = read_npy(self._search_folder / _WORD_IDS)
        if ids.shape != (self.num_occurrences,) or ids.dtype != np.uint32:
            raise ValueError(f"{_WORD_IDS} does not describe the words")
        return ids

    @cached_property
    def _words(self) -> list[str]:
        words: list[str] = json.loads((self._search_folder / _WORDS).read_bytes())
        return words

    @cached_property
    def _forms(self) -> dict[str, list[int]]:
        """The ids of all words that are equal except for upper and lower case."""
        forms: dict[str, list[int]] = {}
        for number, word in enumerate(self._words):
            forms.setdefault(word.casefold(), []).append(number)
        return forms

    def _ids_of(self, word: str) -> list[int]:
        return self._forms.get(word.casefold(), [])

    def _vectors(self, layer: LayerKey) -> "VectorFile":
        """Return the vectors of a layer: of the distinct words for layer 0, of the occurrences for the others."""
        if layer not in self._layers:
            num_vectors = len(self._words) if layer == 0 else self.num_occurrences
            self._layers[layer] = VectorFile(self._search_folder / _layer_file(layer), num_vectors)
        return self._layers[layer]

    def _find(self, words: Sequence[str]) -> Numbers:
        """Return the numbers of the first words where all these words stand in a row in one sentence."""
        first: Numbers = np.flatnonzero(np.isin(self._word_ids, self._ids_of(words[0])))
        last = first + len(words) - 1
        first = first[np.searchsorted(self._ends, first, "right") == np.searchsorted(self._ends, last, "right")]
        for distance, word in enumerate(words[1:], start=1):
            first = first[np.isin(self._word_ids[first + distance], self._ids_of(word))]
        return first

    def _locate(self, number: int, length: int = 1) -> Occurrence:
        """Return an occurrence by its number."""
        sentence = int(np.searchsorted(self._ends, number, side="right"))
        folder, position, source, sentence_number, _ = self._rows[sentence].tolist()
        row, source_name = self._folders[folder][position], self.manifest.sources[source].name
        start = number - (int(self._ends[sentence - 1]) if sentence else 0)
        reading = self.manifest.reading
        tokenizer = Tokenization(reading.tokenization).tokenizer(on_spaces=reading.split_on_spaces)
        words = [] if row.text is None else tokenizer(row.text)
        if row.text is not None and [word.text for word in words] == row.words:
            offsets = tuple((word.start, word.end) for word in words)
            return Occurrence(CorpusSentence(row.text, offsets, source_name, sentence_number), start, start + length)
        return Occurrence(join_words(row.words, source_name, sentence_number), start, start + length)

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
        raise InputError(
            f"{path} could not be written ({first_line(error):.120}); make room on the disk and run the same "
            "command again: it resumes."
        ) from error


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
        """Return the numbers and cosines of the nearest vectors that `mask` lets through, best first.

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
            cosines, numbers = self._index.search(vector[None].astype(np.float32), top_k, params=settings)
            pairs = zip(numbers[0].tolist(), cosines[0].tolist(), strict=True)
            nearest = [(number, min(1.0, cosine)) for number, cosine in pairs if number >= 0]  # rounding may exceed 1
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
    progress: bool = False,
) -> CorpusIndex:
    """Build an index of text files or vectors folders, resume its build, or add to it; return it opened.

    `layers` are numbers, "top", "average" or "meaning"; by default meaning, or every layer above 0 for a model
    without a context layer (layer 0, the words without sentences, is always included). A vectors folder has its
    own layers and is read, not embedded again. `model_name` is recorded, to open the same model for a search. While
    it is built, the vectors of a layer are in memory, one byte per dimension.
    """
    require_faiss()
    folder = Path(folder)
    given_folders = [name for name in names if VECTORS.is_described(Path(name))]
    texts = [name for name in names if name not in given_folders]
    files = [InputFile.of(source) for source in find_corpus(texts)] if texts else []
    opened = [_open_vectors(name, model) for name in given_folders]
    keys = tuple(key for key in choose_layers(layers, model) if key != 0)
    if opened and not layers:
        keys = _layers_of(opened[0], model)
    if not is_index(folder) and not is_vacant(folder):
        raise InputError(f"{folder} exists and is not an index; give a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder, f"Another process is building {folder}; wait until it is done."):
        wanted = Manifest(
            _absolute(model_name), fingerprint(model), model.num_layers, keys, settings_for(model, reading),
            context_hash=context_fingerprint(model) if "meaning" in keys else None,
        )  # fmt: skip
        manifest = _check_manifest(folder, wanted, layers_given=bool(layers)) if is_index(folder) else wanted
        _save(folder, manifest)  # first, because only in the folder of an index may old files be removed
        _remove_unlisted(folder, manifest)  # of a process that was killed
        grown = manifest
        for vectors in opened:
            grown = _add_folder(grown, vectors, model)
        grown = _add_files(model, folder, grown, files, progress=progress)
        if grown != manifest or manifest.search is None:
            grown = _write_search(model, folder, grown, progress=progress)
            _save(folder, grown)
            _remove_unlisted(folder, grown)
    return CorpusIndex(folder)


def _save(folder: Path, manifest: Manifest) -> None:
    replace_file(folder / MANIFEST, json.dumps(manifest.to_dict(), ensure_ascii=False, indent=1).encode())


def _remove_unlisted(folder: Path, manifest: Manifest) -> None:
    for entry in folder.iterdir():
        if _SEARCH_NAME.fullmatch(entry.name) and entry.name != manifest.search:
            remove(entry)


def _check_manifest(folder: Path, wanted: Manifest, *, layers_given: bool) -> Manifest:
    """Return the manifest of an index that is there; InputError if it was built in another way."""
    existing = read_manifest(folder)
    has_other_context = len({existing.context_hash, wanted.context_hash} - {None}) > 1
    if existing.model_hash != wanted.model_hash or has_other_context:
        raise InputError(
            f"{folder} was built with another model, {existing.model or 'the default one'}; use that one, or "
            "build a new index."
        )
    if layers_given and existing.layers != wanted.layers:
        listed = ", ".join(map(str, existing.layers))
        raise InputError(f"{folder} has the layers {listed}; leave --layers out, or build a new index.")
    if existing.reading != wanted.reading:
        raise InputError(f"{folder} was built from text read as {existing.reading}; use the same settings.")
    return existing


def _add_files(
    model: Elmo, folder: Path, manifest: Manifest, files: Sequence[InputFile], *, progress: bool
) -> Manifest:
    """Embed the files that are not in the index yet."""
    known = {source.name: source.sha256 for source in manifest.sources}
    for file in files:
        if known.get(file.source.name, file.sha256) != file.sha256:
            raise InputError(f"{file.source.name} has changed since it was added to {folder}; build a new index.")
    new = [file for file in files if file.source.name not in known]
    if not new:
        return manifest
    names, reading = [file.source.name for file in new], manifest.reading
    # The same files resume in the same folder after a kill.
    digest = hashlib.sha256("".join(file.sha256 for file in new).encode()).hexdigest()[:12]
    paths = []
    for layers in _group_layers(manifest.layers):
        settings = VectorSettings(
            layers=layers, dtype="int8", split=reading.split, language=reading.language, column=reading.field,
            split_on_spaces=reading.split_on_spaces, max_words=_NO_LIMIT,
        )  # fmt: skip
        paths.append(f"vectors-{digest}-{layers}")
        embed_files(model, names, folder / paths[-1], settings, progress=progress)
    records = (SourceRecord(file.source.name, file.sha256) for file in new)
    return dataclasses.replace(
        manifest, sources=(*manifest.sources, *records), folders=(*manifest.folders, tuple(paths))
    )


def _add_folder(manifest: Manifest, vectors: Vectors, model: Elmo) -> Manifest:
    """Register a vectors folder, which stays where it is."""
    path = str(vectors.folder.resolve())
    if (path,) in manifest.folders:
        return manifest
    keys = _layers_of(vectors, model)
    if keys != manifest.layers:
        raise InputError(
            f"{vectors.folder} has the layers {', '.join(map(str, keys))}, but the index has "
            f"{', '.join(map(str, manifest.layers))}; build another index for it."
        )
    inputs = vectors.manifest.values["inputs"]
    records = (SourceRecord(file["name"], file["sha256"]) for file in inputs)
    return dataclasses.replace(manifest, sources=(*manifest.sources, *records), folders=(*manifest.folders, (path,)))


def _write_search(model: Elmo, folder: Path, manifest: Manifest, *, progress: bool) -> Manifest:
    """Write the folder that is searched, for all vectors folders, and return the manifest that names it."""
    opened = [[open_folder(folder / path) for path in paths] for paths in manifest.folders]
    name = f"search-{len(opened):04d}"
    with (
        progress_bar(unit="words indexed", num_bytes=None, shown=progress) as advance,
        atomic_write(folder / name) as temporary,
    ):
        temporary.mkdir()
        rows, word_ids, words = _list_words([vectors[0] for vectors in opened])
        if not words:
            names = ", ".join(source.name for source in manifest.sources)
            raise InputError(f"There are no words in {names}; an index needs some text.")
        np.save(temporary / _ROWS, rows)
        np.save(temporary / _WORD_IDS, word_ids)
        (temporary / _WORDS).write_text(json.dumps(words), encoding="utf-8")
        blocks = [words[start : start + 1024] for start in range(0, len(words), 1024)]
        vectors_of_words = np.concatenate([normalize(model.embed([block], layers=0)[0]) for block in blocks])
        write_vectors(temporary / _layer_file(0), len(words), vectors_of_words, [vectors_of_words])
        lengths = np.diff(rows[:, 4], prepend=0)
        drawn = np.random.default_rng(0).permutation(len(rows))
        num_drawn = 1 + int(np.searchsorted(np.cumsum(lengths[drawn]), _MOST_CELLS * _POINTS_PER_CELL))
        for key in manifest.layers:
            sample = np.concatenate(list(_read_vectors(opened, rows[np.sort(drawn[:num_drawn])], key)))
            blocks_of_layer = _read_vectors(opened, rows, key, advance)
            write_vectors(temporary / _layer_file(key), len(word_ids), sample, blocks_of_layer)
    return dataclasses.replace(manifest, search=name, num_occurrences=len(word_ids))


def _list_words(folders: Sequence[Vectors]) -> tuple[Numbers, npt.NDArray[np.uint32], list[str]]:
    """Return the table of sentences with words, the word of each occurrence, and the distinct words."""
    rows, word_ids, numbers = array("q"), array("I"), dict[str, int]()
    first_source = 0
    for folder, vectors in enumerate(folders):
        inputs = vectors.manifest.values["inputs"]
        ends = np.cumsum([file["num_rows"] for file in inputs])
        counts = [0] * len(inputs)
        for position, row in enumerate(vectors):
            if row.words:
                source = int(np.searchsorted(ends, row.index, side="right"))
                word_ids.extend(numbers.setdefault(word, len(numbers)) for word in row.words)
                rows.extend((folder, position, first_source + source, counts[source], len(word_ids)))
                counts[source] += 1
        first_source += len(inputs)
    return np.array(rows, np.int64).reshape(-1, 5), np.array(word_ids, np.uint32), list(numbers)


def _read_vectors(
    opened: Sequence[Sequence[Vectors]],
    rows: Numbers,
    key: LayerKey,
    advance: Callable[[int, int], None] = lambda size, num_pieces: None,
) -> Iterator[Array]:
    """Yield the vectors of sentences in a layer, of length 1, many at once."""
    by_layers = [{str(part.manifest.values["settings"]["layers"]): part for part in parts} for parts in opened]
    waiting: list[Array] = []
    num_waiting = 0
    for folder, position in rows[:, :2].tolist():
        parts = by_layers[folder]
        if "all" in parts and key != "meaning":
            layers = parts["all"][position].vectors
            vectors = layers.mean(axis=0) if key == "average" else layers[key]
        else:  # a folder may name the layer otherwise, as in "top"
            vectors = parts.get(str(key), opened[folder][0])[position].vectors
        waiting.append(normalize(np.asarray(vectors, np.float32)))
        num_waiting += len(vectors)
        advance(0, len(vectors))
        if num_waiting >= _VECTORS_AT_ONCE:
            yield np.concatenate(waiting)
            waiting, num_waiting = [], 0
    if waiting:
        yield np.concatenate(waiting)


def _group_layers(keys: Sequence[LayerKey]) -> list[LayerKey | str]:
    """Return the layers of the vectors folders that have all of these: meaning, and one layer or all."""
    others = [key for key in keys if key != "meaning"]
    stored: list[LayerKey | str] = ["meaning"] if "meaning" in keys else []
    return [*stored, *(others if len(others) < 2 else ["all"])]


def _open_vectors(name: str, model: Elmo) -> Vectors:
    """Open a vectors folder; InputError if an index cannot be built over it."""
    vectors = open_folder(name)
    values = vectors.manifest.values
    if values["settings"]["unit"] != "words":
        raise InputError(f"{name} has vectors of {values['settings']['unit']}; an index needs those of words.")
    if values["model"]["content_hash"] != fingerprint(model):
        raise InputError(f"{name} was made with another model; name it with --model.")
    return vectors


def _layers_of(vectors: Vectors, model: Elmo) -> tuple[LayerKey, ...]:
    """Return the layers that a vectors folder has, without layer 0."""
    stored = vectors.manifest.values["settings"]["layers"]
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
