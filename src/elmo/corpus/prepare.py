"""Text files -> a folder that a trainer reads (prepared.py): parts, one word list, vocabulary, shards, manifest.

Parts are finished one by one and kept, so the same call resumes where another one was stopped; the manifest is
written last. The result does not depend on the number of workers. Nothing is trained here.
"""

import dataclasses
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from elmo.config import Script
from elmo.corpus.parts import (
    BLOCK_TOKENS,
    SHARDS,
    PartRecord,
    ShardRecord,
    part_folder,
    read_part_record,
    write_part,
)
from elmo.corpus.prepared import CORPUS, OWN_NAMES, PARTS, VOCABULARY, PreparedCorpus
from elmo.corpus.settings import PrepareSettings, Split, read_vocabulary
from elmo.corpus.text import PartText, cut_parts
from elmo.corpus.words import (
    TARGETS,
    WordTable,
    choose_vocabulary,
    merge_all,
    write_part_shard,
    write_targets,
    write_words,
)
from elmo.errors import InputError
from elmo.files.durable import FileRecord, disk_full_reported, remove, sync, write_file
from elmo.files.sources import STDIN, InputFile, check_outside, copy_stdin, find_sources
from elmo.files.work_folder import MANIFEST, run_parts, write_manifest
from elmo.files.workers import Call, Workers, count_cores
from elmo.progress import progress_bar
from elmo.text.vocabulary import format_lines
from elmo.version import __version__

_MOST_WORKERS_BY_DEFAULT = 8  # so that all of them together stay below 2 GiB
Stage = Literal["hashing", "reading", "merging", "writing"]
# The share of the time that each stage takes, measured on 78 million words.
_SHARES: dict[Stage, float] = {"hashing": 0.005, "reading": 0.95, "merging": 0.035, "writing": 0.01}
_BAR_UNITS = 1000  # the bar counts thousandths of the work, because the size of compressed text is not known


@dataclass(frozen=True)
class PrepareProgress:
    """The state of one run; what an earlier run finished counts as nothing to do."""

    stage: Stage
    num_words: int  # tokenized in this run
    fraction: float  # of the work of this run, 0 to 1


ProgressCallback: TypeAlias = Callable[[PrepareProgress], None]


def prepare(
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    column: str = "text",
    split: Split = "sentences",
    language: str | None = None,
    split_on_spaces: bool = False,
    characters: Sequence[Script] = (),
    vocabulary_size: int | None = None,
    min_count: int | None = None,
    vocabulary: str | Path | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: bool = False,
) -> PreparedCorpus:
    """Prepare text for training and return the opened corpus; `elmo prepare` is this function.

    `files` are .txt, .jsonl or .parquet files, compressed or not, patterns such as `texts/*.txt.xz`, or "-" for
    standard input; see PrepareSettings for the other options. A stopped call is resumed by the same call. A folder
    that holds this corpus already is opened as it is; another corpus is refused unless `force` is true.
    `progress` shows a bar. Raises InputError or ConfigError for what the caller can fix.
    """
    settings = PrepareSettings(
        field=column,
        split=split,
        language=language,
        split_on_spaces=split_on_spaces,
        characters=tuple(characters),
        vocabulary_size=vocabulary_size,
        min_count=min_count,
        vocabulary=None if vocabulary is None else Path(vocabulary),
    )
    names = [files] if isinstance(files, str | Path) else files
    if not progress:
        return prepare_corpus(names, output, settings, workers=workers, force=force)
    with _bar() as show:
        return prepare_corpus(names, output, settings, show, workers=workers, force=force)


@contextmanager
def _bar() -> Iterator[ProgressCallback]:
    done_words = done_units = 0
    with progress_bar(unit="words", num_bytes=_BAR_UNITS, prints=False) as advance:

        def show(progress: PrepareProgress) -> None:
            nonlocal done_words, done_units
            units = int(progress.fraction * _BAR_UNITS)
            advance(units - done_units, progress.num_words - done_words)
            done_words, done_units = progress.num_words, units

        yield show


def prepare_corpus(
    files: Sequence[str | Path],
    output: str | Path,
    settings: PrepareSettings | None = None,
    progress: ProgressCallback = lambda progress: None,
    *,
    workers: int | None = None,
    force: bool = False,
) -> PreparedCorpus:
    """Prepare text as `prepare` does, from settings; `progress` is called now and then, by several threads."""
    settings, output = settings or PrepareSettings(), Path(output)
    num_workers = min(count_cores(), _MOST_WORKERS_BY_DEFAULT) if workers is None else workers
    if num_workers < 1:
        raise InputError(f"workers is {num_workers}; at least 1 is needed.")
    if settings.vocabulary is not None:
        read_vocabulary(settings.vocabulary)
    sources = find_sources([str(name) for name in files], output / CORPUS.work / "stdin.txt")
    read = [source.path for source in sources if source.name != STDIN]
    check_outside(read if settings.vocabulary is None else [*read, Path(settings.vocabulary)], output)
    meter = _Meter(progress)
    with disk_full_reported(output), CORPUS.locked(output):
        copy_stdin(sources)
        meter.begin("hashing", sum(source.path.stat().st_size for source in sources))
        inputs = [InputFile.of(source, lambda size: meter.advance(0, size)) for source in sources]
        description = _describe(inputs, settings)
        if force or not _is_finished(output, description):
            _clear(output, parts_too=force)
            _Preparation(inputs, output, settings, description, num_workers, meter).run()
    return PreparedCorpus.open(output)


def _describe(inputs: Sequence[InputFile], settings: PrepareSettings) -> dict[str, Any]:
    """Return the first part of the manifest: everything that decides the rest."""
    libraries = {name: version(name) for name in ("tokenizers", "sentencex")}
    return {
        "format": CORPUS.format,
        "version": CORPUS.version,
        "made_with": {"modern-elmo": __version__, **libraries},
        "settings": settings.to_dict(),
        "inputs": [file.to_dict() for file in inputs],
    }


def _is_finished(output: Path, description: dict[str, Any]) -> bool:
    """Return whether the folder holds this corpus; InputError if it holds another one, or is damaged."""
    manifest = CORPUS.read_manifest(output)
    if manifest is None:
        return False
    CORPUS.check_same(output, manifest, description)
    PreparedCorpus.open(output)
    return True


def _clear(output: Path, *, parts_too: bool) -> None:
    """Remove what an unfinished run, or a corpus to be replaced, left behind; finished parts only if asked."""
    (output / MANIFEST).unlink(missing_ok=True)
    sync(output)
    for name in OWN_NAMES:
        remove(output / name)
    if parts_too:
        remove(output / CORPUS.work / PARTS)


class _Meter:
    """Adds up what is done, stage by stage; workers report from several threads."""

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback = callback
        self._lock = threading.Lock()
        self._stage: Stage = "hashing"
        self._before = 0.0
        self._total = self._done = self._num_words = 0

    def begin(self, stage: Stage, total: int) -> None:
        """Enter a stage with `total` units of work."""
        with self._lock:
            self._stage, self._total, self._done = stage, total, 0
            stages = list(_SHARES)
            self._before = sum(_SHARES[each] for each in stages[: stages.index(stage)])
            self._report()

    def advance(self, num_words: int, units: int) -> None:
        """Count what was done since the last call."""
        with self._lock:
            self._num_words += num_words
            self._done += units
            self._report()

    def _report(self) -> None:
        share = min(1.0, self._done / self._total) if self._total else 0.0
        fraction = self._before + _SHARES[self._stage] * share
        self._callback(PrepareProgress(self._stage, self._num_words, min(1.0, fraction)))


class _Preparation:
    """One run, from the input files to the manifest."""

    def __init__(
        self,
        inputs: Sequence[InputFile],
        output: Path,
        settings: PrepareSettings,
        description: dict[str, Any],
        num_workers: int,
        meter: _Meter,
    ) -> None:
        self.inputs, self.output, self.settings, self.description = inputs, output, settings, description
        self.workers, self.meter = Workers(num_workers), meter
        self.parts, self.merged = output / CORPUS.work / PARTS, output / CORPUS.work / "merged"
        self.identity = CORPUS.identify(description)

    def run(self) -> None:
        with self.workers:
            records = self._write_parts()
            num_words = sum(record.num_words for record in records)
            num_sentences = sum(record.num_sentences for record in records)
            if not num_words:
                raise InputError("There are no words in the input; name files that contain text.")
            written, vocabulary, num_unknown = self._write_words(records, num_sentences)
            shards = self._write_shards(records, num_words + num_sentences)
        counts = {
            "num_words": num_words,
            "num_sentences": num_sentences,
            "num_tokens": num_words + num_sentences,
            "num_distinct_words": len(WordTable(self.output)) - 1,
            "num_unknown_words": num_unknown,
            "unknown_rate": round(num_unknown / num_words, 6),
            "vocabulary_size": len(vocabulary),
        }
        manifest = {
            **self.description,
            "counts": counts,
            "block_tokens": BLOCK_TOKENS,
            "files": {name: dataclasses.asdict(record) for name, record in sorted(written.items())},
            "shards": [dataclasses.asdict(shard) for shard in shards],
        }
        write_manifest(self.output, manifest)

    def _write_parts(self) -> list[PartRecord]:
        """Tokenize all text that no earlier run has; return the records of all parts in order."""
        self.parts.mkdir(exist_ok=True)
        finished = {}
        for folder in self.parts.iterdir():
            if not folder.name.isdigit():
                shutil.rmtree(folder, ignore_errors=True)  # a part that was not finished
            elif record := read_part_record(self.parts, int(folder.name), self.identity):
                finished[record.number] = record
        num_finished_bytes = sum(record.input_bytes for record in finished.values())
        self.meter.begin("reading", sum(file.num_bytes for file in self.inputs) - num_finished_bytes)
        texts = cut_parts([file.source for file in self.inputs], self.settings, self.settings.shard_bytes)

        def compute(missing: Iterator[PartText]) -> Iterator[PartRecord]:
            calls: Iterator[Call] = (
                (write_part, (text, self.settings, self.parts, self.identity)) for text in missing
            )
            return self.workers.run(calls, self.meter.advance)

        return run_parts(texts, lambda text: finished.get(text.number), compute, self.inputs)

    def _write_words(
        self, records: Sequence[PartRecord], num_sentences: int
    ) -> tuple[dict[str, FileRecord], list[str], int]:
        """Write the word table and the vocabulary; return the files, the vocabulary and the unknown words."""
        self.meter.begin("merging", sum(record.num_distinct_words for record in records))
        folders = [part_folder(self.parts, record.number) for record in records]
        merged = merge_all(folders, self.merged, self.workers, self.meter.advance)
        written = write_words(merged, self.output, num_sentences)
        vocabulary = choose_vocabulary(self.output, self.settings)
        written[VOCABULARY] = write_file(self.output / VOCABULARY, [format_lines(vocabulary)])
        written[TARGETS], num_unknown = write_targets(merged, self.output, vocabulary)
        return written, vocabulary, num_unknown

    def _write_shards(self, records: Sequence[PartRecord], num_tokens: int) -> list[ShardRecord]:
        self.meter.begin("writing", num_tokens)
        (self.output / SHARDS).mkdir()
        filled = [record.number for record in records if record.num_words]
        places = (self.parts, self.merged, len(records), self.output)
        calls: list[Call] = [(write_part_shard, (shard, part, *places)) for shard, part in enumerate(filled)]
        shards = sorted(self.workers.run(calls, self.meter.advance), key=lambda shard: shard.number)
        for folder in (self.output / SHARDS, self.output):
            sync(folder)
        return shards
