"""Parts -> their vectors, their files in the folder and their records.

Parts are computed by this process, by several processes, or by a Ray cluster. The batches depend only on the part, and
the word cache is cleared first, so the vectors of a part do not depend on the process that computes it.
"""

import platform
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from elmo.corpus.rows import Part, Row
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.files.sources import BrokenRow
from elmo.files.work_folder import record_file
from elmo.files.workers import Call, Workers, connect_to_ray, count_cores, run_on_ray
from elmo.inference.context import Span
from elmo.kernels.int8 import quantize_rows
from elmo.model import Elmo
from elmo.progress import Advance
from elmo.vectors.folder import VECTORS, Counts, PartRecord, write_part_record
from elmo.vectors.formats import PART_WRITERS, Arrays, Block, Layout, part_path
from elmo.vectors.settings import DType, VectorSettings

RunCalls: TypeAlias = Callable[[Iterable[Call]], Generator[PartRecord, None, None]]

# One core per direction: every matrix multiplication then uses one thread, and its result does not depend on the
# number of workers that share the cores.
THREADS_PER_WORKER = 2
_LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
_MOST_WORDS = 1 << 20  # of a row
_ROWS_AT_ONCE, _WORDS_AT_ONCE = 1024, 32_768  # bounds the memory of a block's vectors


@dataclass(frozen=True)
class PartJob:
    """The data that a worker needs in addition to the part and the model."""

    output: Path
    settings: VectorSettings
    identity: str
    stops: bool  # at a broken row


@contextmanager
def open_workers(
    engine: Literal["local", "ray"],
    address: str | None,
    num_workers: int | None,
    num_threads: int | None,
    model: Elmo,
) -> Iterator[tuple[RunCalls | None, int]]:
    """Yield the function that runs calls in workers, or None for this process alone, and the threads per worker.

    None for a number means the default. Raises InputError if the arguments contradict each other.
    """
    on_cpu = str(model.device).partition(":")[0] == "cpu"
    if engine not in ("local", "ray"):
        raise InputError(f"The engine {engine!r} is unknown; choose local or ray.")
    if engine == "local" and address is not None:
        raise InputError("An address is only for a Ray cluster; choose the engine ray too.")
    if engine == "local":
        num_workers = 1 if num_workers is None else num_workers
        num_workers, num_threads = share_threads(num_workers, num_threads, on_cpu=on_cpu)
        yield None if num_workers == 1 else Workers(num_workers).run, num_threads
        return
    with connect_to_ray(address) as ray:
        resources = ray.cluster_resources()
        if num_workers is None and not on_cpu:
            num_workers = int(resources.get("GPU", 1))
        num_cores = int(resources.get("CPU", 1))
        num_workers, num_threads = share_threads(num_workers, num_threads, num_cores=num_cores, on_cpu=on_cpu)
        num_gpus = 0 if on_cpu else 1
        run = partial(run_on_ray, ray, num_workers=num_workers, num_cpus=num_threads, num_gpus=num_gpus)
        yield run, num_threads


def share_threads(
    num_workers: int | None, num_threads: int | None, *, num_cores: int | None = None, on_cpu: bool = True
) -> tuple[int, int]:
    """Return the numbers of workers and of threads per worker for the requested numbers and the available cores."""
    for name, value in (("--workers", num_workers), ("--threads", num_threads)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1.")
    if not on_cpu:
        return num_workers or 1, num_threads or 1
    num_threads = num_threads or num_cores or count_cores()
    num_workers = num_workers or -(-num_threads // THREADS_PER_WORKER)
    return num_workers, max(1, min(THREADS_PER_WORKER, num_threads // num_workers))


def write_in_workers(
    run: RunCalls, num_threads: int, parts: Iterable[Part], advance: Advance, job: PartJob, model: Elmo
) -> Iterator[PartRecord]:
    """Write the parts in workers, which open a copy of the model, and yield their records in any order."""
    folder = job.output / VECTORS.work / "model"
    model.save_pretrained(folder)
    more = (job, folder, model.precision, str(model.device), num_threads)
    with closing(run((write_in_worker, (part, *more)) for part in parts)) as records:  # an error ends the workers
        for record in records:
            advance(record.input_bytes, record.counts["num_words"])
            yield record


def write_in_worker(
    part: Part, job: PartJob, folder: Path, precision: str, device: str, num_threads: int
) -> PartRecord:
    """Write a part in a worker process, which opens the model for its first part."""
    model = _open_model(folder, precision, device, num_threads)
    return finish_part(job, *compute_part(part, lambda size, num_pieces=1: None, job, model))


@cache
def _open_model(folder: Path, precision: str, device: str, num_threads: int) -> Elmo:
    from elmo.heap import reuse_large_blocks

    reuse_large_blocks()
    if not folder.is_dir():
        raise InputError(
            f"The machine {platform.node()} of the cluster cannot access {folder.parent.parent}; choose an output "
            "folder that all machines can access under the same name."
        )
    model = Elmo.from_pretrained(folder, format="elmo", precision=precision, device=device, num_threads=num_threads)
    if model.precision != precision:
        raise InputError(f"A worker cannot use the precision {precision} of the others; choose --precision float32.")
    return model


def write_here(parts: Iterable[Part], advance: Advance, job: PartJob, model: Elmo) -> Iterator[PartRecord]:
    """Write one part after another; each is synced while the next is computed, which saves a tenth of the time."""
    with ThreadPoolExecutor(1) as finishing:
        previous: Future[PartRecord] | None = None
        for part in parts:
            computed = compute_part(part, advance, job, model)
            if previous is not None:
                yield previous.result()
            previous = finishing.submit(finish_part, job, *computed)
        if previous is not None:
            yield previous.result()


def compute_part(part: Part, advance: Advance, job: PartJob, model: Elmo) -> tuple[Path, PartRecord]:
    """Write the files of a part to a temporary folder; return the folder and the record of the part without files."""
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=job.output / VECTORS.work))  # `begin` removes old ones
    rejects: list[dict[str, Any]] = []

    def reject(index: int, row: BrokenRow) -> None:
        source = part.source_of(index)
        if job.stops:
            reason = f"{row.reason}; --on-error reject skips such rows"
            raise BrokenRow(row.number, reason).to_error(source.label, source.unit)
        rejects.append({"index": index, "input": source.name, source.unit: row.number, "reason": row.reason})

    embedder = RowEmbedder(model, job.settings, reject)
    num_words = num_bytes = 0  # that were reported
    file_format = job.settings.file_format
    with PART_WRITERS[file_format](part_path(temporary, part.number, file_format), embedder.layout) as add:
        for block in embedder.blocks(part.rows, part.first_index):
            add(block)
            num_rows = block.rows[-1]["index"] - part.first_index + 1
            bytes_done = int(part.input_bytes * (num_rows / len(part.rows)))
            advance(bytes_done - num_bytes, embedder.counts.num_words - num_words)
            num_words, num_bytes = embedder.counts.num_words, bytes_done
    advance(part.input_bytes - num_bytes, embedder.counts.num_words - num_words)
    counts = asdict(embedder.counts)
    record = PartRecord(job.identity, part.number, part.first_index, part.input_bytes, counts, rejects, files=[])
    return temporary, record


def finish_part(job: PartJob, temporary: Path, record: PartRecord) -> PartRecord:
    """Move the files of a part into the output folder, then write its record."""
    paths = sorted(temporary.iterdir())
    record = replace(record, files=[{"name": path.name, **record_file(path)} for path in paths])
    for path in paths:
        path.replace(job.output / path.name)
    sync(job.output)
    write_part_record(job.output, record)
    temporary.rmdir()
    return record


class RowEmbedder:
    """Computes blocks of rows with resolved settings and counts the rows; broken rows are passed to `reject`."""

    def __init__(self, model: Elmo, settings: VectorSettings, reject: Callable[[int, BrokenRow], None]) -> None:
        self._model, self._settings, self._reject = model, settings, reject
        self._only_words = frozenset(settings.only_words)
        self.layout = make_layout(model, settings)
        self.counts = Counts()

    def blocks(self, rows: Iterable[Row | BrokenRow], first_index: int = 0) -> Iterator[Block]:
        """Yield the rows in order, in blocks; with a carried state, each block is one row."""
        self._model.clear_cache()
        rows_at_once = _ROWS_AT_ONCE if self._model.state == "zero" else 1
        window: list[dict[str, Any]] = []
        num_words = 0
        for index, row in enumerate(rows, first_index):
            self.counts.num_rows += 1
            fields = self._read(index, row)
            if isinstance(fields, BrokenRow):
                self.counts.num_rejected += 1
                self._reject(index, fields)
                continue
            num_new = len(fields["words"])
            self.counts.num_words += num_new
            if self._settings.unit == "spans" and not fields["spans"]:
                self.counts.num_without_span += 1
                continue
            if len(window) == rows_at_once or (window and num_words + num_new > _WORDS_AT_ONCE):
                yield self._make_block(window)
                window, num_words = [], 0
            window.append(fields)
            num_words += num_new
        if window:
            yield self._make_block(window)

    def _read(self, index: int, row: Row | BrokenRow) -> dict[str, Any] | BrokenRow:
        """Return the fields of a row for a Block."""
        if isinstance(row, BrokenRow):
            return row
        settings, words = self._settings, row.content
        if isinstance(words, str):
            words = [word.text for word in self._model.tokenize(words, split_on_spaces=settings.split_on_spaces)]
        if len(words) > _MOST_WORDS:
            reason = f"has {len(words):,} words, more than {_MOST_WORDS:,}; split it with --split sentences"
            return BrokenRow(row.number, reason)
        fields: dict[str, Any] = {"index": index, "id": row.id, "words": words}
        if isinstance(row.content, str):
            fields["text"] = row.content
        if settings.unit == "spans":
            fields["spans"] = self._find_only(words) if self._only_words else row.spans or []
            for start, end in fields["spans"]:
                if not 0 <= start < end <= len(words):
                    reason = f"has the span [{start}, {end}], which is not within its {len(words)} words"
                    return BrokenRow(row.number, reason)
        return fields

    def _find_only(self, words: list[str]) -> list[Span]:
        """Return the spans of the chosen words; a word may be several consecutive letters."""
        if not self._model.tokenization.reads_characters:
            return [(position, position + 1) for position, word in enumerate(words) if word in self._only_words]
        spans = set()
        for word in self._only_words:
            letters = [letter.text for letter in self._model.tokenize(word)]
            for start in range(len(words)):
                for end in (start + 1, start + len(letters)):
                    if end <= len(words) and words[start:end] in ([word], letters):
                        spans.add((start, end))
        return sorted(spans)

    def _make_block(self, rows: list[dict[str, Any]]) -> Block:
        vectors, counts = self._embed(rows)
        self.counts.num_written += len(rows)
        self.counts.num_vectors += sum(counts)
        return Block(rows, counts, store_vectors(vectors, self._settings.dtype))

    def _embed(self, rows: list[dict[str, Any]]) -> tuple[npt.NDArray[np.float32], list[int]]:
        """Return the vectors of rows in one array, and the number of vectors of each row."""
        settings, layers = self._settings, cast(Any, self._settings.layers)
        words = [row["words"] for row in rows]
        if settings.unit == "sentences":
            vectors = self._model.encode(
                words, pooling=settings.pooling, normalize_embeddings=settings.normalize, layers=layers
            )
            return vectors, [1] * len(rows)
        if settings.unit == "spans":
            arrays = self._model.embed_spans(words, [row["spans"] for row in rows], layers=layers)
        else:
            embedded = self._model.embed(words, layers=layers)
            # All layers: (T, L+1, 2D).
            arrays = [array.transpose(1, 0, 2) if array.ndim == 3 else array for array in embedded]
        return np.concatenate(arrays), list(map(len, arrays))


def make_layout(model: Elmo, settings: VectorSettings) -> Layout:
    """Return the layout of all rows; raise InputError if the model does not have the layers."""
    layers = cast(Any, settings.layers)
    is_sentence = settings.unit == "sentences"
    shape = model.sentence_shape(settings.pooling, layers) if is_sentence else model.word_shape(layers)
    return Layout(settings.unit, settings.dtype, shape)


def store_vectors(vectors: npt.NDArray[np.float32], dtype: DType) -> Arrays:
    """Return the vectors in the type to store and, for int8, the scale of each vector."""
    if dtype == "float32":
        return {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    if dtype == "float16":
        return {"vectors": np.clip(vectors, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16)}
    rounded, scales = quantize_rows(vectors)
    return {"vectors": rounded, "scales": scales}
