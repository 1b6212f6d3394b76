"""Parts -> their vectors, their files in the folder and their records.

They are computed by this process, several, or a Ray cluster. The batches depend on the part alone, and the word
cache is cleared first, so a part has the same numbers whichever process computes it.
"""

import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from elmo.corpus.rows import Entry, Part, Row
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.files.sources import BrokenRow, Source
from elmo.files.work_folder import describe_output
from elmo.files.workers import Call, ProgressCallback, RayWorkers, Workers, check_cluster, count_cores
from elmo.model import Elmo
from elmo.vectors.folder import WORK, PartRecord, Reject, list_rejects, write_part_record
from elmo.vectors.formats import PART_FORMATS, Arrays, Block, Layout, Span, part_stem
from elmo.vectors.settings import DType, VectorSettings

# One core per direction: every matrix multiplication then uses one thread, and its result does not depend on how
# many workers share the cores.
THREADS_PER_WORKER = 2
_LARGEST_INT8 = 127
_LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
_MOST_WORDS = 1 << 20  # of a row
_ROWS_AT_ONCE, _WORDS_AT_ONCE = 1024, 32_768  # bounds the memory of a block's vectors


def is_on_cpu(model: Elmo) -> bool:
    """Return whether a model computes on the CPU."""
    return str(model.device).partition(":")[0] == "cpu"


@dataclass(frozen=True)
class PartJob:
    """What a worker needs apart from the part and the model."""

    output: Path
    settings: VectorSettings
    identity: str
    inputs: tuple[Source, ...]
    stops: bool  # at a broken row

    def check(self, rejects: Iterable[Reject]) -> None:
        """Raise InputError for the first broken row, if the job stops there."""
        for reject in rejects if self.stops else ():
            source = self.inputs[reject["source"]]
            reason = f"{reject['reason']}; --on-error reject skips such rows"
            raise BrokenRow(reject["number"], reason).to_error(source.label, source.unit)


@dataclass(frozen=True)
class Engine:
    """Where parts are computed. `workers` and `threads` are as the caller gave them; None means the default."""

    name: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None
    threads: int | None = None

    def check(self, *, on_cpu: bool) -> None:
        """Raise InputError for contradictions, before any work."""
        if self.name not in ("local", "ray"):
            raise InputError(f"The engine {self.name!r} is unknown; choose local or ray.")
        if self.name == "local" and self.address is not None:
            raise InputError("An address is that of a Ray cluster; choose the engine ray too.")
        if self.name == "ray":
            check_cluster(self.address)
        share_threads(self.workers, self.threads, on_cpu=on_cpu)
        if self.threads is not None and self.workers is None and self.name == "local":
            raise InputError("threads are shared by workers, but workers was not given; give workers too.")

    def run(self, parts: Iterator[Part], job: PartJob, model: Elmo, report: ProgressCallback) -> Iterator[PartRecord]:
        """Write the parts, a few of them ahead, and yield their records in any order."""
        if self.name == "local" and self.workers in (None, 1):
            yield from _write_here(parts, PartWriter(job, model), report)
            return
        on_cpu = is_on_cpu(model)
        folder = job.output / WORK / "model"
        model.save_pretrained(folder)

        def list_calls(num_threads: int) -> Iterator[Call]:
            place = ModelPlace(folder, model.precision, str(model.device), num_threads)
            return ((write_in_worker, (part, job, place)) for part in parts)

        if self.name == "local":
            num_workers, num_threads = share_threads(self.workers, self.threads, on_cpu=on_cpu)
            with Workers(num_workers) as workers:
                yield from workers.run(list_calls(num_threads), report)
            return
        with RayWorkers(self.address) as cluster:
            requested = self.workers if on_cpu else self.workers or cluster.count("GPU")
            num_workers, num_threads = share_threads(
                requested, self.threads, num_cores=cluster.count("CPU"), on_cpu=on_cpu
            )
            yield from cluster.run(
                list_calls(num_threads),
                report,
                num_workers=num_workers,
                num_cpus=num_threads,
                num_gpus=0 if on_cpu else 1,
            )


@dataclass(frozen=True)
class ModelPlace:
    """The copy of the model that a worker opens, and the options to open it with."""

    folder: Path
    precision: str
    device: str
    num_threads: int

    def open(self) -> Elmo:
        """Open the model; InputError if this machine does not see it, or does not support its precision."""
        if not self.folder.is_dir():
            raise InputError(
                f"The machine {platform.node()} of the cluster does not see {self.folder.parent.parent}; choose "
                "an output folder that all machines see under the same name."
            )
        model = Elmo.from_pretrained(
            self.folder,
            format="elmo",
            precision=self.precision,
            device=self.device,
            num_threads=self.num_threads,
        )
        if model.precision != self.precision:
            raise InputError(
                f"A worker cannot compute in {self.precision}, as the others do; choose --precision float32."
            )
        return model


def _write_here(parts: Iterable[Part], writer: "PartWriter", report: ProgressCallback) -> Iterator[PartRecord]:
    """Write one part after the other; one is synced to the disk while the next is computed."""
    with ThreadPoolExecutor(1) as finishing:
        last: Future[PartRecord] | None = None
        for part in parts:
            finish = writer.begin(part, report)
            if last is not None:
                yield last.result()
            last = finishing.submit(finish)
        if last is not None:
            yield last.result()


def write_in_worker(part: Part, job: PartJob, place: ModelPlace, report: ProgressCallback) -> PartRecord:
    """Write a part in a worker process, which opens the model for its first part."""
    return PartWriter(job, _open_once(place)).begin(part, report)()


@cache
def _open_once(place: ModelPlace) -> Elmo:
    from elmo.heap import reuse_large_blocks

    reuse_large_blocks()
    return place.open()


def share_threads(
    workers: int | None, threads: int | None, *, num_cores: int | None = None, on_cpu: bool = True
) -> tuple[int, int]:
    """Return the number of workers and of threads per worker, from the requested numbers and the cores."""
    num_cores = num_cores or count_cores()
    for name, value in (("--workers", workers), ("--threads", threads)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1.")
    if not on_cpu:
        return workers or 1, threads or 1
    if workers is None:
        workers = -(-(threads or num_cores) // THREADS_PER_WORKER)
    elif threads is not None and threads > workers * THREADS_PER_WORKER:
        raise InputError(
            f"--threads is {threads}, but a worker uses at most {THREADS_PER_WORKER}, and --workers is {workers}; "
            f"use --workers {-(-threads // THREADS_PER_WORKER)}, or fewer threads."
        )
    return workers, max(1, min(THREADS_PER_WORKER, (threads or num_cores) // workers))


class RowEmbedder:
    """Computes blocks of rows, with resolved settings; counts their words and keeps the rows that are broken."""

    def __init__(self, model: Elmo, settings: VectorSettings) -> None:
        self._model, self._settings = model, settings
        self._only_words = frozenset(settings.only_words)
        self.layout = make_layout(model, settings)
        self.broken: list[Entry] = []
        self.num_words = self.num_without_span = 0

    def blocks(self, entries: Iterable[Entry]) -> Iterator[Block]:
        """Yield the rows in order, some at a time; with a carried state one by one."""
        self._model.clear_cache()
        rows_at_once = _ROWS_AT_ONCE if self._model.state == "zero" else 1
        window: list[tuple[Entry, list[str], list[Span]]] = []
        num_words = 0
        for entry in entries:
            try:
                if isinstance(entry.row, BrokenRow):
                    raise _RowError(entry.row.reason)
                words, spans = self._read(entry.row)
            except _RowError as error:
                self.broken.append(replace(entry, row=BrokenRow(entry.row.number, str(error))))
                continue
            self.num_words += len(words)
            if self._settings.unit == "spans" and not spans:
                self.num_without_span += 1
                continue
            if len(window) == rows_at_once or (window and num_words + len(words) > _WORDS_AT_ONCE):
                yield self._make_block(window)
                window, num_words = [], 0
            window.append((entry, words, spans))
            num_words += len(words)
        if window:
            yield self._make_block(window)

    def _read(self, row: Row) -> tuple[list[str], list[Span]]:
        """Return the words and the chosen spans of a row."""
        settings = self._settings
        words = row.content
        if isinstance(words, str):
            words = [word.text for word in self._model.tokenize(words, split_on_spaces=settings.split_on_spaces)]
        spans = self._find_only(words) if self._only_words else row.spans or []
        for start, end in spans:
            if not 0 <= start < end <= len(words):
                raise _RowError(f"has the span [{start}, {end}], which is not within its {len(words)} words")
        if len(words) > _MOST_WORDS:
            raise _RowError(f"has {len(words):,} words, more than {_MOST_WORDS:,}; split it with --split sentences")
        return words, spans

    def _find_only(self, words: list[str]) -> list[Span]:
        """Return where the chosen words are, each of which may be several letters in a row."""
        if not self._model.tokenization.reads_characters:
            return [(number, number + 1) for number, word in enumerate(words) if word in self._only_words]
        spans = set()
        for word in self._only_words:
            letters = [letter.text for letter in self._model.tokenize(word)]
            for start in range(len(words)):
                for end in (start + 1, start + len(letters)):
                    if end <= len(words) and words[start:end] in ([word], letters):
                        spans.add((start, end))
        return sorted(spans)

    def _make_block(self, window: list[tuple[Entry, list[str], list[Span]]]) -> Block:
        settings, layers = self._settings, cast(Any, self._settings.layers)
        words, spans = [words for _, words, _ in window], [spans for _, _, spans in window]
        if settings.unit == "sentences":
            vectors = self._model.encode(
                words, pooling=settings.pooling, normalize_embeddings=settings.normalize, layers=layers
            )
            counts = [1] * len(window)
        else:
            if settings.unit == "spans":
                arrays = self._model.embed_spans(words, spans, layers=layers)
            else:
                embedded = self._model.embed(words, layers=layers)
                # All layers: (T, L+1, 2D).
                arrays = [array.transpose(1, 0, 2) if array.ndim == 3 else array for array in embedded]
            counts = [len(array) for array in arrays]
            vectors = np.concatenate(arrays)
        rows = []
        for entry, row_words, row_spans in window:
            row = cast(Row, entry.row)
            text = {} if row.text is None else {"text": row.text}
            chosen = {"spans": row_spans} if settings.unit == "spans" else {}
            rows.append({"index": entry.index, "id": row.id, "words": row_words, **text, **chosen})
        return Block(rows, counts, quantize(vectors, settings.dtype))


class _RowError(Exception):
    """Why a row cannot be embedded."""


def make_layout(model: Elmo, settings: VectorSettings) -> Layout:
    """Return the form of all rows; InputError if the model does not have the layers."""
    layers = cast(Any, settings.layers)
    is_sentence = settings.unit == "sentences"
    shape = model.sentence_shape(settings.pooling, layers) if is_sentence else model.word_shape(layers)
    return Layout(settings.unit, settings.dtype, shape)


def quantize(vectors: npt.NDArray[np.float32], dtype: DType) -> Arrays:
    """Return the numbers to store and, for int8, the scale of each vector."""
    if dtype == "float32":
        return {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    if dtype == "float16":
        return {"vectors": np.clip(vectors, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16)}
    largest = np.abs(vectors).max(axis=-1, initial=0.0)
    scales = (largest / _LARGEST_INT8).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[..., None]
    rounded = np.rint(vectors / divisors).clip(-_LARGEST_INT8, _LARGEST_INT8)
    return {"vectors": rounded.astype(np.int8), "scales": scales}


class PartWriter:
    """Writes parts of one job with one model."""

    def __init__(self, job: PartJob, model: Elmo) -> None:
        self._job, self._model = job, model

    def begin(self, part: Part, report: ProgressCallback) -> Callable[[], PartRecord]:
        """Write a part's files to a temporary folder; return what finishes the part, for any thread to call."""
        temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=self._job.output / WORK))
        try:
            record = self._write(part, temporary, report)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return partial(self._finish, temporary, record)

    def _finish(self, temporary: Path, record: PartRecord) -> PartRecord:
        try:
            paths = sorted(temporary.iterdir())
            record = replace(record, files=list(map(describe_output, paths)))
            for path in paths:
                sync(path)
                path.replace(self._job.output / path.name)
            sync(self._job.output)
            write_part_record(self._job.output, record)
            return record
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write(self, part: Part, temporary: Path, report: ProgressCallback) -> PartRecord:
        """Return the record without the files."""
        embedder = RowEmbedder(self._model, self._job.settings)
        first_index = part.entries[0].index
        num_written = num_vectors = words_reported = bytes_reported = 0

        def report_up_to(num_bytes: int) -> None:
            nonlocal words_reported, bytes_reported
            report(embedder.num_words - words_reported, num_bytes - bytes_reported)
            words_reported, bytes_reported = embedder.num_words, num_bytes

        write = PART_FORMATS[self._job.settings.file_format].write
        with write(temporary / part_stem(part.number), embedder.layout) as add:
            for block in embedder.blocks(part.entries):
                add(block)
                num_written += len(block.rows)
                num_vectors += sum(block.counts)
                num_entries = block.rows[-1]["index"] - first_index + 1
                report_up_to(int(part.input_bytes * (num_entries / len(part.entries))))
        rejects = list_rejects(embedder.broken)
        self._job.check(rejects)
        report_up_to(part.input_bytes)
        return PartRecord(
            identity=self._job.identity,
            number=part.number,
            first_index=first_index,
            num_rows=len(part.entries),
            num_written=num_written,
            num_without_span=embedder.num_without_span,
            num_words=embedder.num_words,
            num_vectors=num_vectors,
            input_bytes=part.input_bytes,
            rejects=rejects,
            files=[],
        )
