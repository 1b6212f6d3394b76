"""Text files and a model -> an index of every word's occurrences on disk, and the search in it.

An index is a folder of segments (index_segment.py) and manifest.json: the model and layers it was built with, the
files read so far, its segments. A segment counts once the manifest names it, so a build that
was killed resumes after its last segment; a build with other files, or more words of the same, adds to the index.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.index_segment import DAMAGE, Mask, Segment, SegmentWriter, damaged, require_faiss
from elmo.analysis.layers import Array, LayerKey, choose_layers, embed_layers, settings_for
from elmo.analysis.occurrences import (
    CorpusFilter,
    CorpusSentence,
    Occurrence,
    Occurrences,
    TextSettings,
    count_bytes,
    find_corpus,
    is_same_word,
    read_source,
    sample_some,
    split_word,
)
from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.config import parse
from elmo.errors import CheckpointError, ConfigError, InputError, first_line
from elmo.files.durable import LOCK, atomic_write, holding, is_vacant, remove, replace_file
from elmo.files.sources import InputFile, Source
from elmo.model import Elmo
from elmo.progress import Advance, progress_bar
from elmo.text.sentence_input import Sentence

MANIFEST = "manifest.json"
OCCURRENCES_PER_SEGMENT = 500_000
SENTENCES_AT_ONCE = 256
# Version 2 is an index of the layer "meaning".
_FORMAT, _VERSION, _MEANING_VERSION = "modern-elmo-index", 1, 2
_SEGMENT_NAME = re.compile(r"segment-\d{4,}")
_OTHER_FORMATS = {
    "modern-elmo-corpus": "a corpus prepared for training",
    "modern-elmo-vectors": "a folder of vectors",
}


@dataclass(frozen=True)
class SourceRecord:
    """A file and how far it was read."""

    name: str
    sha256: str
    num_sentences: int = 0
    num_words: int = 0
    is_complete: bool = False


@dataclass(frozen=True)
class Manifest:
    """The description of an index; only segments listed here count."""

    model: str | None  # where the model was; None: the default one
    model_hash: str
    num_layers: int
    dim: int
    layers: tuple[LayerKey, ...]
    reading: TextSettings
    sources: tuple[SourceRecord, ...] = ()
    segments: tuple[str, ...] = ()
    context_hash: str | None = None  # of the model's context layer, if "meaning" is among the layers

    @property
    def num_occurrences(self) -> int:
        """The number of indexed words."""
        return sum(source.num_words for source in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        content = dataclasses.asdict(self)
        if self.context_hash is None:
            del content["context_hash"]
        version = _VERSION if self.context_hash is None else _MEANING_VERSION
        return {"format": _FORMAT, "version": version, **content}

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
        if not all(_SEGMENT_NAME.fullmatch(name) for name in manifest.segments):
            raise ValueError(f"{manifest.segments!r:.80} are not names of segments")
        counts = [count for source in manifest.sources for count in (source.num_sentences, source.num_words)]
        if min(manifest.num_layers - 1, manifest.dim - 1, *counts, 0) < 0:
            raise ValueError("a size or a number of words is too small")
        return manifest


def is_index(path: str | Path) -> bool:
    """Return whether this is a folder with a manifest, of an index or of something similar."""
    return (Path(path) / MANIFEST).is_file()


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
        found, version = content.pop("format", None), content.pop("version", None)
        if found != _FORMAT:
            other = _OTHER_FORMATS.get(found, "something else")
            raise CheckpointError(
                f"{folder} is not an index of occurrences but {other}; build an index of text with "
                "elmo neighbors --build INDEX --corpus FILE."
            )
        if version not in (_VERSION, _MEANING_VERSION):
            raise CheckpointError(
                f"{path} has an unknown version ({_VERSION} and {_MEANING_VERSION} are known); build the index "
                "again."
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
        if not self.manifest.segments:
            raise CheckpointError(
                f"{self.folder} is an index without words; run the command that builds it again."
            )

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
        found: list[tuple[float, int, int]] = []
        with self._reraise_as_damaged():
            for number, segment in enumerate(self._segments):
                mask = _make_mask(segment, word, words, corpus_filter)
                nearest = segment.vectors(layer).search(vector, top_k, mask, num_files=len(self._segments))
                found += ((cosine, number, occurrence) for occurrence, cosine in nearest)
            found.sort(key=lambda each: -each[0])
            return [(self._segments[number][place], cosine) for cosine, number, place in found[:top_k]]

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
            firsts = [self._segments[number][place] for number, place in sampled]
            whole = [dataclasses.replace(each, end=each.start + len(wanted)) for each in firsts]
            return Occurrences(whole, len(places))

    @contextmanager
    def _reraise_as_damaged(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            raise damaged(self.folder, error) from error

    @cached_property
    def _segments(self) -> list[Segment]:
        names = [source.name for source in self.manifest.sources]
        return [Segment(self.folder / segment, names) for segment in self.manifest.segments]


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
    max_words: int | None = None,
    model_name: str | None = None,
    segment_size: int = OCCURRENCES_PER_SEGMENT,
    progress: bool = False,
) -> CorpusIndex:
    """Build an index of text files, resume its build, or add files to it; return it opened.

    `layers` are numbers, "top", "average" or "meaning"; by default meaning, or every layer above 0 for a model
    without a context layer (layer 0, the words without sentences, is always included). `max_words` limits the
    words that are read of each file. `model_name` is recorded, to open the same model for a search.
    """
    require_faiss()
    folder = Path(folder)
    if max_words is not None and max_words < 1:
        raise InputError(f"max_words is {max_words}; it must be at least 1.")
    sources = find_corpus(names)
    keys = tuple(key for key in choose_layers(layers, model) if key != 0)
    wanted = Manifest(
        _absolute(model_name), fingerprint(model), model.num_layers, model.dim,
        keys, settings_for(model, reading), context_hash=context_fingerprint(model) if "meaning" in keys else None,
    )  # fmt: skip
    # Another index in the folder is reported before anything is created.
    _find_manifest(folder, wanted, layers_given=bool(layers))
    folder.mkdir(parents=True, exist_ok=True)
    build = None
    try:
        with holding(folder, f"Another process is building {folder}; wait until it is done."):
            manifest = _find_manifest(folder, wanted, layers_given=bool(layers))  # as it is with the lock held
            # The manifest comes first, because only in the folder of an index may old segments be removed.
            _write_manifest(folder, manifest)
            with progress_bar(unit="words", num_bytes=count_bytes(sources), shown=progress) as advance:
                build = _Build(model, folder, manifest, max_words, segment_size, advance)
                try:
                    build.run(sources)
                finally:
                    if not build.manifest.segments:  # nothing was indexed, so nothing is left behind
                        (folder / MANIFEST).unlink(missing_ok=True)
    finally:
        if build is not None and not build.manifest.segments:
            (folder / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()
    return CorpusIndex(folder)


class _Build:
    def __init__(
        self,
        model: Elmo,
        folder: Path,
        manifest: Manifest,
        max_words: int | None,
        segment_size: int,
        advance: Advance,
    ) -> None:
        self.manifest = manifest
        self._model, self._folder, self._max_words = model, folder, max_words
        self._segment_size, self._advance = segment_size, advance
        self._records = list(manifest.sources)  # as they will be once the current segment is written

    def run(self, sources: Sequence[Source]) -> None:
        for left in self._folder.iterdir():
            if _SEGMENT_NAME.fullmatch(left.name) and left.name not in self.manifest.segments:
                remove(left)  # of a process that was killed before it wrote the manifest
        files = [InputFile.of(source) for source in sources]
        windows = self._windows(files, [self._register(file) for file in files])
        while (window := next(windows, None)) is not None:
            self._write_segment(itertools.chain([window], windows))
        for file in files:
            file.check_unchanged()
        if not any(record.num_words for record in self._records):
            names = ", ".join(source.name for source in sources)
            raise InputError(f"There are no words in {names}; an index needs some text.")
        self._save(self.manifest.segments)

    def _register(self, file: InputFile) -> int:
        """Return the number of a file's record, new or old."""
        for number, record in enumerate(self._records):
            if record.name == file.source.name:
                if record.sha256 != file.sha256:
                    raise InputError(
                        f"{record.name} has changed since it was added to {self._folder}; build a new index."
                    )
                return number
        self._records.append(SourceRecord(file.source.name, file.sha256))
        return len(self._records) - 1

    def _windows(
        self, files: Sequence[InputFile], numbers: Sequence[int]
    ) -> Iterator[tuple[int, list[CorpusSentence]]]:
        """Yield the sentences that are not indexed yet, some of one file at a time, with the file's number."""
        for file, number in zip(files, numbers, strict=True):
            record = self._records[number]
            num_left = None if self._max_words is None else self._max_words - record.num_words
            if record.is_complete or (num_left is not None and num_left <= 0):
                self._advance(file.num_bytes, 0)
                continue
            read = read_source(file.source, self.manifest.reading, lambda num_bytes: self._advance(num_bytes, 0))
            new = (sentence for sentence in read if sentence.number >= record.num_sentences)
            sentences = _take_words(new, num_left)
            while window := list(itertools.islice(sentences, SENTENCES_AT_ONCE)):
                yield number, window
            if next(read, None) is None:
                self._records[number] = dataclasses.replace(self._records[number], is_complete=True)

    def _write_segment(self, windows: Iterable[tuple[int, list[CorpusSentence]]]) -> None:
        """Write as many windows as fit a segment, and name it in the manifest."""
        name = f"segment-{len(self.manifest.segments):04d}"
        with atomic_write(self._folder / name) as temporary:
            with closing(SegmentWriter(temporary, self.manifest.layers)) as writer:
                for number, window in windows:
                    self._embed(number, window, writer)
                    if writer.num_occurrences >= self._segment_size:
                        break
            writer.finish()
        self._save((*self.manifest.segments, name))

    def _embed(self, source: int, window: Sequence[CorpusSentence], writer: SegmentWriter) -> None:
        words = [sentence.words for sentence in window]
        embedded = embed_layers(self._model, words, (0, *self.manifest.layers))
        for sentence, vectors in zip(window, embedded, strict=True):
            writer.add(sentence, source, vectors)
        num_words = sum(map(len, words))
        record = self._records[source]
        self._records[source] = dataclasses.replace(
            record, num_sentences=window[-1].number + 1, num_words=record.num_words + num_words
        )
        self._advance(0, num_words)

    def _save(self, segments: tuple[str, ...]) -> None:
        self.manifest = dataclasses.replace(self.manifest, sources=tuple(self._records), segments=segments)
        _write_manifest(self._folder, self.manifest)


def _take_words(sentences: Iterator[CorpusSentence], max_words: int | None) -> Iterator[CorpusSentence]:
    """Yield sentences until they have `max_words` words."""
    num_words = 0
    for sentence in sentences:
        yield sentence
        num_words += len(sentence.offsets)
        if max_words is not None and num_words >= max_words:
            return


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    replace_file(folder / MANIFEST, json.dumps(manifest.to_dict(), ensure_ascii=False, indent=1).encode())


def _find_manifest(folder: Path, wanted: Manifest, *, layers_given: bool) -> Manifest:
    """Return the manifest to start or resume with; InputError if the folder holds something else."""
    if not is_index(folder):
        if not is_vacant(folder):
            raise InputError(f"{folder} exists and is not an index; give a new folder.")
        return wanted
    found = read_manifest(folder)
    has_other_context = len({found.context_hash, wanted.context_hash} - {None}) > 1
    if found.model_hash != wanted.model_hash or has_other_context:
        raise InputError(
            f"{folder} was built with another model, {found.model or 'the default one'}; use that one, or build a "
            "new index."
        )
    if layers_given and found.layers != wanted.layers:
        listed = ", ".join(map(str, found.layers))
        raise InputError(f"{folder} has the layers {listed}; leave --layers out, or build a new index.")
    if found.reading != wanted.reading:
        raise InputError(f"{folder} was built from text read as {found.reading}; use the same settings.")
    return found


def _absolute(name: str | None) -> str | None:
    """Return a model's name such that it is found from another folder too."""
    return str(Path(name).expanduser().resolve()) if name and Path(name).expanduser().exists() else name
