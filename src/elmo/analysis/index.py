"""Vectors folders -> an index of every word's occurrences, and the search in it.

An index is a folder of segments (index_segment.py) over vectors folders, and manifest.json: the model and layers,
the files, the vectors folders, the segments. Text files become a vectors folder inside the index first, as `elmo
embed` makes it; an existing vectors folder is read where it is. A segment counts once the manifest names it, so a
build that was killed resumes where it stopped; a build with other files adds to the index.
"""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.index_segment import DAMAGE, Mask, Segment, SegmentWriter, damaged, require_faiss
from elmo.analysis.layers import Array, LayerKey, choose_layer, choose_layers, settings_for
from elmo.analysis.occurrences import (
    CorpusFilter,
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
from elmo.files.durable import LOCK, atomic_write, holding, is_vacant, remove, replace_file
from elmo.files.sources import InputFile
from elmo.model import Elmo
from elmo.progress import Advance, progress_bar
from elmo.text.sentence_input import Sentence
from elmo.text.units import Tokenization
from elmo.vectors.embed import embed_files
from elmo.vectors.folder import VECTORS
from elmo.vectors.formats import VectorRow
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings

MANIFEST = "manifest.json"
OCCURRENCES_PER_SEGMENT = 500_000
_FORMAT, _VERSION = "modern-elmo-index", 3
_SEGMENT_NAME = re.compile(r"segment-\d{4,}")
_OTHER_FORMATS = {
    "modern-elmo-corpus": "a corpus prepared for training",
    "modern-elmo-vectors": "a folder of vectors",
}
_NO_LIMIT = 2**62


@dataclass(frozen=True)
class SourceRecord:
    """A file that was indexed, by the checksum of its size and ends."""

    name: str
    sha256: str


@dataclass(frozen=True)
class VectorsRecord:
    """A vectors folder, which has the layers of some files; the path is relative to the index if it is inside."""

    path: str
    layers: str  # "all", "meaning", "average" or a number


@dataclass(frozen=True)
class Batch:
    """Files that were embedded together: their vectors folders, with the same rows, and how many are indexed."""

    vectors: tuple[VectorsRecord, ...]
    first_source: int  # number of its first file
    num_rows: int = 0  # with words, in segments
    is_complete: bool = False


@dataclass(frozen=True)
class SegmentRecord:
    """A segment, which holds some rows of one batch."""

    name: str
    batch: int
    num_occurrences: int


@dataclass(frozen=True)
class Manifest:
    """The description of an index; only segments listed here count."""

    model: str | None  # where the model was; None: the default one
    model_hash: str
    num_layers: int
    layers: tuple[LayerKey, ...]
    reading: TextSettings
    sources: tuple[SourceRecord, ...] = ()
    batches: tuple[Batch, ...] = ()
    segments: tuple[SegmentRecord, ...] = ()
    context_hash: str | None = None  # of the model's context layer, if "meaning" is among the layers

    @property
    def num_occurrences(self) -> int:
        """The number of indexed words."""
        return sum(segment.num_occurrences for segment in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"format": _FORMAT, "version": _VERSION, **dataclasses.asdict(self)}

    @classmethod
    def of(cls, content: dict[str, Any]) -> "Manifest":
        """Read the JSON object without its format and version; an error for values that no index has."""
        layers = tuple(content["layers"])  # numbers and names, which `parse` does not mix
        manifest = dataclasses.replace(parse(cls, {**content, "layers": ()}, "it"), layers=layers)
        known = (*range(1, manifest.num_layers), "average", "meaning")
        if wrong := [layer for layer in layers if isinstance(layer, bool) or layer not in known]:
            raise ValueError(f"the model has no layer {wrong[0]!r:.40}")
        if isinstance(manifest.context_hash, str) != ("meaning" in layers):
            raise ValueError("it does not describe the context layer")
        for segment in manifest.segments:
            if not _SEGMENT_NAME.fullmatch(segment.name) or not 0 <= segment.batch < len(manifest.batches):
                raise ValueError(f"{segment!r:.80} is not a segment")
        return manifest


def is_index(path: str | Path) -> bool:
    """Return whether this is a folder with a manifest of an index."""
    try:
        content = json.loads((Path(path) / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return (Path(path) / MANIFEST).is_file()
    return not isinstance(content, dict) or content.get("format") != "modern-elmo-vectors"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index; CheckpointError if the folder holds something else."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not an index of occurrences: it has no {MANIFEST}; build one with "
            f"elmo neighbors --build {folder} --corpus FILE."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kind, version = content.pop("format", None), content.pop("version", None)
        if kind != _FORMAT:
            other = _OTHER_FORMATS.get(kind, "something else")
            raise CheckpointError(
                f"{folder} is not an index of occurrences but {other}; build an index of text with "
                "elmo neighbors --build INDEX --corpus FILE."
            )
        if version != _VERSION:
            raise CheckpointError(
                f"{folder} is an index of version {version!r}, but this program reads version {_VERSION}; build "
                "it again in a new folder with elmo neighbors --build INDEX --corpus FILE."
            )
        return Manifest.of(content)
    except (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({first_line(error)}); build the index again.") from error


class CorpusIndex:
    """Every word of some texts with its vectors, on disk. Opening it reads only the manifest."""

    def __init__(self, folder: str | Path) -> None:
        """Open the index in a folder; CheckpointError if there is none."""
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        self._opened: dict[int, Vectors] = {}
        if not self.manifest.segments:
            raise CheckpointError(f"{self.folder} is an index without words; run the command that builds it again.")

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
        corpus_filter: CorpusFilter | None = None,
        top_k: int = 10,
    ) -> list[tuple[Occurrence, float]]:
        """Return the occurrences nearest to a vector of length 1 and their cosines, best first.

        `words` is "any", "same" (forms of `word`) or "other".
        """
        candidates: list[tuple[float, int, int]] = []
        with self._reraise_as_damaged():
            for number, segment in enumerate(self._segments):
                mask = _make_mask(segment, word, words, corpus_filter)
                nearest = segment.vectors(layer).search(vector, top_k, mask, num_files=len(self._segments))
                candidates += ((cosine, number, occurrence) for occurrence, cosine in nearest)
            nearest_of_all = sorted(candidates, key=lambda candidate: -candidate[0])[:top_k]
            return [(self._locate(number, place), cosine) for cosine, number, place in nearest_of_all]

    def most_similar(
        self, model: Elmo, sentence: Sentence, *, topn: int = 10, layer: str | int | None = None
    ) -> list[tuple[str, float]]:
        """Return the occurrences nearest to the [marked] word, as marked sentences with their cosines, best first.

        The short form of find_neighbors, with the shape of gensim's most_similar. `layer` is the first one indexed
        if not given.
        """
        from elmo.analysis.neighbors import find_neighbors

        layers = [self.manifest.layers[0] if layer is None else layer]
        found = find_neighbors(model, sentence, self, layers=layers, top_k=topn).layers[0]
        return [(each.occurrence.mark(), each.cosine) for each in found.neighbors]

    def search_words(self, vector: Array, *, word: str, top_k: int = 10) -> list[tuple[str, float]]:
        """Return the words nearest to a vector of layer 0 and their cosines, best first, without `word`."""
        found: dict[str, float] = {}
        with self._reraise_as_damaged():
            for segment in self._segments:
                wanted = top_k + len(segment.forms_of(word))
                nearest = segment.vectors(0).search(vector, wanted, num_files=len(self._segments))
                found.update((segment.words[number], cosine) for number, cosine in nearest)
        best = sorted(found.items(), key=lambda each: -each[1])
        return [each for each in best if not is_same_word(each[0], word)][:top_k]

    def count(self, corpus_filter: CorpusFilter | None = None) -> int:
        """Return the number of occurrences that pass a filter."""
        if corpus_filter is None:
            return self.num_occurrences
        with self._reraise_as_damaged():
            masks = [(segment, segment.mask(corpus_filter)) for segment in self._segments]
            return sum(segment.num_occurrences if mask is None else int(mask.sum()) for segment, mask in masks)

    def find_occurrences(
        self, word: str, *, max_occurrences: int, corpus_filter: CorpusFilter | None = None, seed: int = 0
    ) -> Occurrences:
        """Return the occurrences of a word, or a random sample of `max_occurrences` of them, in order."""
        places: list[tuple[int, int]] = []
        wanted = split_word(word, self.manifest.reading)
        with self._reraise_as_damaged():
            for number, segment in enumerate(self._segments):
                numbers, mask = segment.runs_of(wanted), segment.mask(corpus_filter)
                chosen = numbers if mask is None else numbers[mask[numbers]]
                places += [(number, place) for place in sorted(chosen.tolist())]
            sampled = sorted(sample_some(places, max_occurrences, seed))
            firsts = [self._locate(number, place) for number, place in sampled]
            whole = [dataclasses.replace(first, end=first.start + len(wanted)) for first in firsts]
            return Occurrences(whole, len(places))

    @contextmanager
    def _reraise_as_damaged(self) -> Iterator[None]:
        try:
            yield
        except (*DAMAGE, InputError) as error:  # InputError: of a vectors folder
            raise damaged(self.folder, error) from error

    def _locate(self, segment: int, number: int) -> Occurrence:
        """Return an occurrence by its number in a segment."""
        position, source, sentence, place = self._segments[segment].locate(number)
        row = self._vectors(self.manifest.segments[segment].batch)[position]
        return Occurrence(self._make_sentence(row, source, sentence), place, place + 1)

    def _make_sentence(self, row: VectorRow, source: str, number: int) -> CorpusSentence:
        tokenization = Tokenization(self.manifest.reading.tokenization)
        if row.text is not None:
            words = tokenization.tokenizer(on_spaces=self.manifest.reading.split_on_spaces)(row.text)
            if [word.text for word in words] == row.words:
                offsets = tuple((word.start, word.end) for word in words)
                return CorpusSentence(row.text, offsets, source, number)
        return join_words(row.words, source, number)

    def _vectors(self, batch: int) -> Vectors:
        if batch not in self._opened:
            self._opened[batch] = open_folder(self.folder / self.manifest.batches[batch].vectors[0].path)
        return self._opened[batch]

    @cached_property
    def _segments(self) -> list[Segment]:
        names = [source.name for source in self.manifest.sources]
        return [Segment(self.folder / segment.name, names) for segment in self.manifest.segments]


def _make_mask(segment: Segment, word: str, words: str, corpus_filter: CorpusFilter | None) -> Mask | None:
    mask = segment.mask(corpus_filter)
    if words == "any":
        return mask
    same = np.zeros(segment.num_occurrences, dtype=np.bool_)
    same[segment.occurrences_of(word)] = True
    chosen = same if words == "same" else ~same
    return chosen if mask is None else mask & chosen


def build_index(
    model: Elmo,
    folder: str | Path,
    names: Sequence[str],
    *,
    layers: Sequence[str | int] | None = None,
    reading: TextSettings | None = None,
    model_name: str | None = None,
    segment_size: int = OCCURRENCES_PER_SEGMENT,
    progress: bool = False,
) -> CorpusIndex:
    """Build an index of text files or vectors folders, resume its build, or add to it; return it opened.

    `layers` are numbers, "top", "average" or "meaning"; by default meaning, or every layer above 0 for a model
    without a context layer (layer 0, the words without sentences, is always included). A vectors folder has its
    own layers and is read, not embedded again. `model_name` is recorded, to open the same model for a search.
    """
    require_faiss()
    folder = Path(folder)
    folders = [name for name in names if VECTORS.is_described(Path(name))]
    sources = find_corpus([name for name in names if name not in folders]) if len(folders) < len(names) else []
    opened = [_open_vectors(name, model) for name in folders]
    keys = tuple(key for key in choose_layers(layers, model) if key != 0)
    if opened and not layers:
        keys = _layers_of(opened[0], model)
    wanted = Manifest(
        _absolute(model_name), fingerprint(model), model.num_layers, keys, settings_for(model, reading),
        context_hash=context_fingerprint(model) if "meaning" in keys else None,
    )  # fmt: skip
    # Another index in the folder is reported before anything is created.
    _find_manifest(folder, wanted, layers_given=bool(layers))
    folder.mkdir(parents=True, exist_ok=True)
    build = None
    try:
        with holding(folder, f"Another process is building {folder}; wait until it is done."):
            manifest = _find_manifest(folder, wanted, layers_given=bool(layers))  # as it is with the lock held
            build = _Build(model, folder, manifest, segment_size, progress=progress)
            # The manifest comes first, because only in the folder of an index may old segments be removed.
            build.save()
            build.remove_unlisted()
            for vectors in opened:
                build.add_folder(vectors)
            build.add_files([InputFile.of(source) for source in sources])
            if not build.manifest.num_occurrences:
                raise InputError(f"There are no words in {', '.join(names)}; an index needs some text.")
    except InputError:
        if build is not None and not build.manifest.segments:  # nothing was indexed, so nothing is left behind
            build.remove_all()
        raise
    return CorpusIndex(folder)


class _Build:
    def __init__(self, model: Elmo, folder: Path, manifest: Manifest, segment_size: int, *, progress: bool) -> None:
        self.manifest = manifest
        self._model, self._folder, self._segment_size, self._progress = model, folder, segment_size, progress

    def save(self, **changes: Any) -> None:
        """Write the manifest with some values changed."""
        self.manifest = dataclasses.replace(self.manifest, **changes)
        content = json.dumps(self.manifest.to_dict(), ensure_ascii=False, indent=1)
        replace_file(self._folder / MANIFEST, content.encode())

    def remove_unlisted(self) -> None:
        """Remove the segment of a process that was killed before it wrote the manifest."""
        listed = {segment.name for segment in self.manifest.segments}
        for entry in self._folder.iterdir():
            if _SEGMENT_NAME.fullmatch(entry.name) and entry.name not in listed:
                remove(entry)

    def remove_all(self) -> None:
        """Remove an index without words."""
        for entry in self._folder.iterdir():
            if entry.name in (MANIFEST, LOCK) or entry.name.startswith("vectors-"):
                remove(entry)
        with suppress(OSError):
            self._folder.rmdir()

    def add_files(self, files: Sequence[InputFile]) -> None:
        """Embed the files that are not in the index yet, or finish them, and index their words."""
        known = {source.name: source.sha256 for source in self.manifest.sources}
        for file in files:
            if known.get(file.source.name, file.sha256) != file.sha256:
                raise InputError(
                    f"{file.source.name} has changed since it was added to {self._folder}; build a new index."
                )
        if new := [file for file in files if file.source.name not in known]:
            # The same files continue in the same folder after a kill.
            digest = hashlib.sha256("".join(file.sha256 for file in new).encode()).hexdigest()[:12]
            records = tuple(self._embed(new, layers, digest) for layers in _group_layers(self.manifest.layers))
            self._register(records, [SourceRecord(file.source.name, file.sha256) for file in new])
        for number, batch in enumerate(self.manifest.batches):
            if not batch.is_complete:
                self._index(number)

    def add_folder(self, vectors: Vectors) -> None:
        """Index the words of a vectors folder, which stays where it is."""
        path = str(vectors.folder.resolve())
        if any(record.path == path for batch in self.manifest.batches for record in batch.vectors):
            return
        keys = _layers_of(vectors, self._model)
        if keys != self.manifest.layers:
            raise InputError(
                f"{vectors.folder} has the layers {', '.join(map(str, keys))}, but the index has "
                f"{', '.join(map(str, self.manifest.layers))}; build another index for it."
            )
        inputs = vectors.manifest.values["inputs"]
        sources = [SourceRecord(file["name"], file.get("sha256") or file["sha256_of_ends"]) for file in inputs]
        self._register((VectorsRecord(path, str(_group_layers(keys)[0])),), sources)

    def _register(self, records: tuple[VectorsRecord, ...], sources: Sequence[SourceRecord]) -> None:
        batch = Batch(records, len(self.manifest.sources))
        self.save(sources=(*self.manifest.sources, *sources), batches=(*self.manifest.batches, batch))

    def _embed(self, files: Sequence[InputFile], layers: LayerKey | str, digest: str) -> VectorsRecord:
        name, reading = f"vectors-{digest}-{layers}", self.manifest.reading
        settings = VectorSettings(
            layers=layers, dtype="int8", split=reading.split, language=reading.language, column=reading.field,
            split_on_spaces=reading.split_on_spaces, max_words=_NO_LIMIT,
        )  # fmt: skip
        names = [file.source.name for file in files]
        vectors = embed_files(self._model, names, self._folder / name, settings, progress=self._progress)
        if not vectors.counts.num_words:
            raise InputError(f"There are no words in {', '.join(names)}; an index needs some text.")
        return VectorsRecord(name, str(layers))

    def _index(self, number: int) -> None:
        """Write the segments of a batch that are missing."""
        batch = self.manifest.batches[number]
        opened = [open_folder(self._folder / record.path) for record in batch.vectors]
        rows = _number_rows(opened, batch.first_source)
        remaining = itertools.islice(rows, batch.num_rows, None)
        with progress_bar(unit="words indexed", num_bytes=None, shown=self._progress) as advance:
            while (first := next(remaining, None)) is not None:
                self._write_segment(number, itertools.chain([first], remaining), advance)
        done = dataclasses.replace(self.manifest.batches[number], is_complete=True)
        self.save(batches=_replace(self.manifest.batches, number, done))

    def _write_segment(self, number: int, rows: "Iterator[_NumberedRow]", advance: Advance) -> None:
        """Write as many rows as fit a segment, and name it in the manifest."""
        batch, name, num_rows = self.manifest.batches[number], f"segment-{len(self.manifest.segments):04d}", 0
        stored = [record.layers for record in batch.vectors]
        with atomic_write(self._folder / name) as temporary:
            with closing(SegmentWriter(temporary, self.manifest.layers)) as writer:
                for position, source, sentence, same_rows in rows:
                    num_rows += 1
                    arrays = dict(zip(stored, (row.vectors for row in same_rows), strict=True))
                    vectors = {key: _take_layer(arrays, key) for key in self.manifest.layers}
                    writer.add(position, source, sentence, same_rows[0].words, vectors)
                    advance(0, len(same_rows[0].words))
                    if writer.num_occurrences >= self._segment_size:
                        break
            writer.finish(_embed_words(self._model, writer.words))
        record = SegmentRecord(name, number, writer.num_occurrences)
        changed = dataclasses.replace(batch, num_rows=batch.num_rows + num_rows)
        self.save(segments=(*self.manifest.segments, record), batches=_replace(self.manifest.batches, number, changed))


_NumberedRow = tuple[int, int, int, list[VectorRow]]  # position, file, sentence there, the row in each folder


def _number_rows(opened: Sequence[Vectors], first_source: int) -> Iterator[_NumberedRow]:
    """Yield the rows with words of folders with the same rows."""
    inputs = opened[0].manifest.values["inputs"]
    ends = np.cumsum([file["num_rows"] for file in inputs])
    counts = [0] * len(inputs)
    for position, rows in enumerate(zip(*opened, strict=True)):
        if rows[0].words:
            source = int(np.searchsorted(ends, rows[0].index, side="right"))
            yield position, first_source + source, counts[source], list(rows)
            counts[source] += 1


def _group_layers(keys: Sequence[LayerKey]) -> list[LayerKey | str]:
    """Return the layers of the vectors folders that have all of these: meaning, and one layer or all."""
    others = [key for key in keys if key != "meaning"]
    stored: list[LayerKey | str] = ["meaning"] if "meaning" in keys else []
    return [*stored, *(others if len(others) < 2 else ["all"])]


def _take_layer(arrays: dict[str, Any], key: LayerKey) -> Array:
    """Return the vectors (T, dimensions) of a layer from those of a row, by the layers of their folders."""
    if str(key) in arrays:
        return np.asarray(arrays[str(key)], np.float32)
    every = np.asarray(arrays["all"], np.float32)
    return np.asarray(every.mean(axis=0) if key == "average" else every[int(key)], np.float32)


def _embed_words(model: Elmo, words: Sequence[str]) -> Array:
    """Return the vectors of words without a sentence."""
    parts = [model.embed([list(words[at : at + 1024])], layers=0)[0] for at in range(0, len(words), 1024)]
    return np.concatenate(parts)


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


def _replace(batches: Sequence[Batch], number: int, batch: Batch) -> tuple[Batch, ...]:
    return (*batches[:number], batch, *batches[number + 1 :])


def _find_manifest(folder: Path, wanted: Manifest, *, layers_given: bool) -> Manifest:
    """Return the manifest to start or resume with; InputError if the folder holds something else."""
    if not is_index(folder):
        if not is_vacant(folder):
            raise InputError(f"{folder} exists and is not an index; give a new folder.")
        return wanted
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


def _absolute(name: str | None) -> str | None:
    """Return a model's name such that it is found from another folder too."""
    return str(Path(name).expanduser().resolve()) if name and Path(name).expanduser().exists() else name
