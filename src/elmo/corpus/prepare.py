"""Text files -> a folder that a trainer reads (prepared.py): parts, one word list, vocabulary, shards, manifest.

Parts are finished one by one and kept, so the same call resumes where another one was stopped; the manifest is
written last. The result does not depend on the number of workers. Nothing is trained here.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from elmo.config import Script
from elmo.corpus import parts
from elmo.corpus.parts import PartRecord, ShardRecord
from elmo.corpus.prepared import CORPUS, OWN_NAMES, PARTS, VOCABULARY, PreparedCorpus, WordTable
from elmo.corpus.settings import DEFAULT_VOCABULARY_SIZE, SPECIAL_WORDS, PrepareSettings, Split, read_vocabulary
from elmo.corpus.text import PartText, cut_parts
from elmo.errors import InputError
from elmo.files.durable import disk_full_reported, remove, sync, write_file
from elmo.files.sources import STDIN, InputFile, check_outside, copy_stdin, find_sources
from elmo.files.work_folder import MANIFEST, run_parts, write_manifest
from elmo.files.workers import Call, Workers, count_cores
from elmo.progress import StatusBar, describe
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
    started = time.monotonic()
    with StatusBar(_BAR_UNITS, shown=progress) as bar:

        def show(done: PrepareProgress) -> None:
            units, seconds = int(done.fraction * _BAR_UNITS), max(1e-9, time.monotonic() - started)
            bar.show(units, describe(done.num_words, "words", seconds, units, _BAR_UNITS))

        return prepare_corpus(names, output, settings, show, workers=workers, force=force)


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
        # The first part of the manifest: everything that decides the rest.
        libraries = {name: version(name) for name in ("tokenizers", "sentencex")}
        description = {
            "format": CORPUS.format,
            "version": CORPUS.version,
            "made_with": {"modern-elmo": __version__, **libraries},
            "settings": settings.to_dict(),
            "inputs": [file.to_dict() for file in inputs],
        }
        if not force and (manifest := CORPUS.read_manifest(output)) is not None:
            CORPUS.check_same(output, manifest, description)
        else:
            # Remove what an unfinished run, or a corpus to be replaced, left behind.
            (output / MANIFEST).unlink(missing_ok=True)
            sync(output)
            for name in OWN_NAMES:
                remove(output / name)
            if force:
                remove(output / CORPUS.work / PARTS)
            with Workers(num_workers) as pool:
                _write_corpus(inputs, output, settings, description, pool, meter)
        return PreparedCorpus.open(output)


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


def _write_corpus(
    inputs: Sequence[InputFile],
    output: Path,
    settings: PrepareSettings,
    description: dict[str, Any],
    workers: Workers,
    meter: _Meter,
) -> None:
    """Write everything, from the parts of the text to the manifest."""
    work = output / CORPUS.work
    records = _write_parts(inputs, work / PARTS, settings, CORPUS.identify(description), workers, meter)
    num_words = sum(record.num_words for record in records)
    num_sentences = sum(record.num_sentences for record in records)
    if not num_words:
        raise InputError("There are no words in the input; name files that contain text.")

    meter.begin("merging", sum(record.num_distinct_words for record in records))
    folders = [parts.part_folder(work / PARTS, record.number) for record in records]
    merged = parts.merge_all(folders, work / "merged", workers, meter.advance)
    files = parts.write_words(merged, output, num_sentences)
    vocabulary = choose_vocabulary(output, settings)
    files[VOCABULARY] = write_file(output / VOCABULARY, [format_lines(vocabulary)])
    files[parts.TARGETS], num_unknown = parts.write_targets(merged, output, vocabulary)

    meter.begin("writing", num_words + num_sentences)
    (output / parts.SHARDS).mkdir()
    filled = [record.number for record in records if record.num_words]
    places = (work / PARTS, work / "merged", len(records), output)
    calls: list[Call] = [(parts.write_shard, (shard, part, *places)) for shard, part in enumerate(filled)]
    found: Iterator[ShardRecord] = workers.run(calls, meter.advance)
    shards = sorted(found, key=lambda shard: shard.number)
    for folder in (output / parts.SHARDS, output):
        sync(folder)
    counts = {
        "num_words": num_words,
        "num_sentences": num_sentences,
        "num_tokens": num_words + num_sentences,
        "num_distinct_words": len(WordTable(output)) - 1,
        "num_unknown_words": num_unknown,
        "unknown_rate": round(num_unknown / num_words, 6),
        "vocabulary_size": len(vocabulary),
    }
    manifest = {
        **description,
        "counts": counts,
        "block_tokens": parts.BLOCK_TOKENS,
        "files": {name: asdict(record) for name, record in sorted(files.items())},
        "shards": [asdict(shard) for shard in shards],
    }
    write_manifest(output, manifest)


def _write_parts(
    inputs: Sequence[InputFile],
    folder: Path,
    settings: PrepareSettings,
    identity: str,
    workers: Workers,
    meter: _Meter,
) -> list[PartRecord]:
    """Tokenize all text that no earlier run has; return the records of all parts in order."""
    folder.mkdir(exist_ok=True)
    finished = {}
    for entry in folder.iterdir():
        if not entry.name.isdigit():
            shutil.rmtree(entry, ignore_errors=True)  # a part that was not finished
        elif record := parts.read_part_record(folder, int(entry.name), identity):
            finished[record.number] = record
    num_finished_bytes = sum(record.input_bytes for record in finished.values())
    meter.begin("reading", sum(file.num_bytes for file in inputs) - num_finished_bytes)

    def compute(missing: Iterator[PartText]) -> Iterator[PartRecord]:
        calls: Iterator[Call] = ((parts.write_part, (text, settings, folder, identity)) for text in missing)
        return workers.run(calls, meter.advance)

    texts = cut_parts([file.source for file in inputs], settings, settings.shard_bytes)
    return run_parts(texts, lambda text: finished.get(text.number), compute, inputs)


def choose_vocabulary(folder: Path, settings: PrepareSettings) -> list[str]:
    """Return the vocabulary for the word table in `folder`: the special words, then words by falling frequency.

    Words of equal frequency follow by code point, so the same text makes the same vocabulary. The order matters:
    the sampled softmax draws rows near the top most often.
    """
    if settings.vocabulary is not None:
        return read_vocabulary(settings.vocabulary)
    counts = np.load(folder / parts.TOTALS, mmap_mode="r")
    if settings.min_count is not None:
        size = None
        rows = parts.most_frequent(counts, min_count=settings.min_count)
    else:
        size = settings.vocabulary_size or DEFAULT_VOCABULARY_SIZE
        # Enough rows, even if some words of the text are spelled like the special ones.
        rows = parts.most_frequent(counts, size=size)
    words = [word for word in WordTable(folder).words(rows) if word not in SPECIAL_WORDS]
    if not words:
        raise InputError(f"No word occurs {settings.min_count} times; choose a lower min_count.")
    return [*SPECIAL_WORDS, *words][:size]
