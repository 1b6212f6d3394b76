"""Text files and a model -> an index of every word's occurrences, in segments that survive a crash.

A segment is written aside and counts from the moment the manifest names it. Run again, a build that was killed
goes on behind its last segment; run with other files, it adds them.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from elmo.analysis.cells import require_faiss
from elmo.analysis.corpus_index import CorpusIndex
from elmo.analysis.corpus_text import ReadingSettings, find_corpus, read_source
from elmo.analysis.index_manifest import (
    MANIFEST,
    SEGMENT_NAME,
    Manifest,
    SourceRecord,
    is_index,
    read_manifest,
    write_manifest,
)
from elmo.analysis.layer_choice import choose_layer_keys, embed_keys
from elmo.analysis.occurrences import CorpusSentence
from elmo.analysis.segment_writer import SegmentWriter
from elmo.checkpoint.fingerprint import context_fingerprint as context_hash
from elmo.checkpoint.fingerprint import fingerprint as content_hash
from elmo.errors import InputError
from elmo.files.durable import LOCK, holding, is_vacant, remove, writing_aside
from elmo.files.sources import InputFile, Source
from elmo.model import Elmo

OCCURRENCES_PER_SEGMENT = 500_000
SENTENCES_AT_ONCE = 256


@dataclass(frozen=True)
class _Window:
    """Sentences of one file that are embedded together; `source` is the number of its record."""

    source: int
    sentences: list[CorpusSentence]


def build_index(
    model: Elmo,
    folder: str | Path,
    names: Sequence[str],
    *,
    layers: Sequence[str | int] | None = None,
    reading: ReadingSettings | None = None,
    max_words: int | None = None,
    model_name: str | None = None,
    segment_size: int = OCCURRENCES_PER_SEGMENT,
    advance: Callable[[int, int], None] = lambda num_bytes, num_words: None,
) -> CorpusIndex:
    """Make an index of text files, or add them to one; give it opened.

    `layers` are numbers, "top", "average" or "meaning"; if not given, meaning, or all above 0 for a model
    without a context layer (the words' own vectors, layer 0, are always there). `max_words` reads so many words of
    each file. `advance` is told bytes read and words embedded.
    """
    require_faiss()
    folder = Path(folder)
    if max_words is not None and max_words < 1:
        raise InputError(f"max_words is {max_words}; it must be at least 1.")
    sources = find_corpus(names)
    keys = tuple(key for key in choose_layer_keys(layers, model) if key != 0)
    wanted = Manifest(
        _absolute(model_name), content_hash(model), model.num_layers, model.dim,
        keys, reading or ReadingSettings(), context_hash=context_hash(model) if "meaning" in keys else None,
    )  # fmt: skip
    wanted.reading.to_prepare()  # a wrong setting is told before anything is made
    _open_manifest(folder, wanted, layers_given=bool(layers))  # another index is told before anything is made
    folder.mkdir(parents=True, exist_ok=True)
    build = None
    try:
        with holding(folder, f"Another process is building {folder}; wait until it is done."):
            manifest = _open_manifest(folder, wanted, layers_given=bool(layers))  # as it is now that we are alone
            # First of all: only in the folder of an index are segments ours to remove.
            write_manifest(folder, manifest)
            build = _Build(
                model, folder, manifest, max_words=max_words, segment_size=segment_size, advance=advance
            )
            try:
                build.run(sources)
            finally:
                if not build.has_segments:  # nothing came of it, so nothing stays
                    (folder / MANIFEST).unlink(missing_ok=True)
    finally:
        if build is not None and not build.has_segments:
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
        *,
        max_words: int | None,
        segment_size: int,
        advance: Callable[[int, int], None],
    ) -> None:
        self._model, self._folder, self._manifest = model, folder, manifest
        self._max_words, self._segment_size, self._advance = max_words, segment_size, advance
        self._records = list(manifest.sources)  # as they are when the segment in the making is done

    @property
    def has_segments(self) -> bool:
        """Whether anything was indexed, by this build or before."""
        return bool(self._manifest.segments)

    def run(self, sources: Sequence[Source]) -> None:
        for left in self._folder.iterdir():
            if SEGMENT_NAME.fullmatch(left.name) and left.name not in self._manifest.segments:
                remove(left)  # of a process that was killed before it wrote the manifest
        files = [InputFile.of(source, lambda num_bytes: None) for source in sources]
        windows = self._windows(files, [self._register(file) for file in files])
        while (window := next(windows, None)) is not None:
            self._write_segment(itertools.chain([window], windows))
        for file in files:
            file.check_unchanged()
        if not any(record.num_words for record in self._records):
            names = ", ".join(source.name for source in sources)
            raise InputError(f"There are no words in {names}; an index needs some text.")
        self._save(self._manifest.segments)

    def _register(self, file: InputFile) -> int:
        """Give the number of a file's record, new or old."""
        for number, record in enumerate(self._records):
            if record.name == file.source.name:
                if record.sha256 != file.sha256:
                    raise InputError(
                        f"{record.name} has changed since it was added to {self._folder}; build a new index."
                    )
                return number
        self._records.append(SourceRecord(file.source.name, file.sha256))
        return len(self._records) - 1

    def _windows(self, files: Sequence[InputFile], numbers: Sequence[int]) -> Iterator[_Window]:
        """Give the sentences that are not indexed yet, some at a time, each window from one file."""
        for file, number in zip(files, numbers, strict=True):
            record = self._records[number]
            num_left = None if self._max_words is None else self._max_words - record.num_words
            if record.is_complete or (num_left is not None and num_left <= 0):
                self._advance(file.num_bytes, 0)
                continue
            read = read_source(file.source, self._manifest.reading, lambda num_bytes: self._advance(num_bytes, 0))
            sentences = _take_words(
                (sentence for sentence in read if sentence.number >= record.num_sentences), num_left
            )
            while window := list(itertools.islice(sentences, SENTENCES_AT_ONCE)):
                yield _Window(number, window)
            if next(read, None) is None:
                self._records[number] = dataclasses.replace(self._records[number], is_complete=True)

    def _write_segment(self, windows: Iterable[_Window]) -> None:
        """Write as many windows as a segment holds, and name it in the manifest."""
        name = f"segment-{len(self._manifest.segments):04d}"
        with writing_aside(self._folder / name) as aside:
            with closing(SegmentWriter(aside, self._manifest.layers)) as writer:
                for window in windows:
                    self._embed(window, writer)
                    if writer.num_occurrences >= self._segment_size:
                        break
            writer.finish()
        self._save((*self._manifest.segments, name))

    def _embed(self, window: _Window, writer: SegmentWriter) -> None:
        words = [sentence.words for sentence in window.sentences]
        embedded = embed_keys(self._model, words, (0, *self._manifest.layers))
        num_words = 0
        for sentence, vectors in zip(window.sentences, embedded, strict=True):
            writer.add(sentence, window.source, vectors)
            num_words += len(sentence.offsets)
        record = self._records[window.source]
        self._records[window.source] = dataclasses.replace(
            record, num_sentences=window.sentences[-1].number + 1, num_words=record.num_words + num_words
        )
        self._advance(0, num_words)

    def _save(self, segments: tuple[str, ...]) -> None:
        self._manifest = dataclasses.replace(self._manifest, sources=tuple(self._records), segments=segments)
        write_manifest(self._folder, self._manifest)


def _take_words(sentences: Iterator[CorpusSentence], max_words: int | None) -> Iterator[CorpusSentence]:
    """Give sentences until they have so many words."""
    num_words = 0
    for sentence in sentences:
        yield sentence
        num_words += len(sentence.offsets)
        if max_words is not None and num_words >= max_words:
            return


def _open_manifest(folder: Path, wanted: Manifest, *, layers_given: bool) -> Manifest:
    """Give the manifest to go on with; InputError if the folder holds something else."""
    if not is_index(folder):
        if not is_vacant(folder):
            raise InputError(f"{folder} exists and holds no index; give a new folder.")
        return wanted
    found = read_manifest(folder)
    has_other_context = len({found.context_hash, wanted.context_hash} - {None}) > 1
    if found.model_hash != wanted.model_hash or has_other_context:
        raise InputError(
            f"{folder} was made with another model, {found.model or 'the default one'}; use that one, or build a "
            "new index."
        )
    if layers_given and found.layers != wanted.layers:
        listed = ", ".join(map(str, found.layers))
        raise InputError(f"{folder} has the layers {listed}; leave --layers out, or build a new index.")
    if found.reading != wanted.reading:
        raise InputError(f"{folder} was made of text read as {found.reading}; read this text alike.")
    return found


def _absolute(name: str | None) -> str | None:
    """Give a model's name, so that it is found from another folder too."""
    return str(Path(name).expanduser().resolve()) if name and Path(name).expanduser().exists() else name
