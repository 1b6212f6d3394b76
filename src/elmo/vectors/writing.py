"""Compute the vectors of each part of a corpus, write them to the output folder, and record finished parts.

The work is done by this process, by several processes, or by a Ray cluster. The batches depend only on the part, and
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
_MAX_WORDS_PER_ROW = 1 << 20
_MAX_ROWS_PER_BLOCK, _MAX_WORDS_PER_BLOCK = 1024, 32_768  # limit the memory used by a block's vectors


@dataclass(frozen=True)
class Job:
    """The data that all parts of an output folder share."""

    output: Path
    settings: VectorSettings
    identity: str  # hash of the inputs, the model and the settings
    on_error: Literal["stop", "reject"]  # at a broken row


@contextmanager
def open_workers(
    engine: Literal["local", "ray"],
    address: str | None,
    num_workers: int | None,
    num_threads: int | None,
    model: Elmo,
) -> Iterator[tuple[RunCalls | None, int]]:
    """Yield (run, threads per worker); `run` executes calls in workers, and is None if this process does all the work.

    None for a number means the default. Raises InputError if the arguments contradict each other.
    """
    on_cpu = str(model.device).partition(":")[0] == "cpu"
    if engine not in ("local", "ray"):
        raise InputError(f"The engine {engine!r} is unknown; choose local or ray.")
    if engine == "local" and address is not None:
        raise InputError("An address is only valid with engine='ray'.")
    if engine == "local":
        num_workers = 1 if num_workers is None else num_workers
        num_workers, num_threads = plan_workers(num_workers, num_threads, on_cpu=on_cpu)
        yield None if num_workers == 1 else Workers(num_workers).run, num_threads
        return
    with connect_to_ray(address) as ray:
        resources = ray.cluster_resources()
        if num_workers is None and not on_cpu:
            num_workers = int(resources.get("GPU", 1))
        num_cores = int(resources.get("CPU", 1))
        num_workers, num_threads = plan_workers(num_workers, num_threads, num_cores=num_cores, on_cpu=on_cpu)
        num_gpus = 0 if on_cpu else 1
        run = partial(run_on_ray, ray, num_workers=num_workers, num_cpus=num_threads, num_gpus=num_gpus)
        yield run, num_threads


def plan_workers(
    num_workers: int | None, num_threads: int | None, *, num_cores: int | None = None, on_cpu: bool = True
) -> tuple[int, int]:
    """Return how many workers to use and how many threads each gets; None for a number means the default."""
    for name, value in (("--workers", num_workers), ("--threads", num_threads)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; it must be at least 1.")
    if not on_cpu:
        return num_workers or 1, num_threads or 1
    num_threads = num_threads or num_cores or count_cores()
    num_workers = num_workers or -(-num_threads // THREADS_PER_WORKER)
    return num_workers, max(1, min(THREADS_PER_WORKER, num_threads // num_workers))


def write_in_workers(
    run: RunCalls, num_threads: int, parts: Iterable[Part], advance: Advance, job: Job, model: Elmo
) -> Iterator[PartRecord]:
    """Write the parts in workers, which open a copy of the model, and yield their records in any order."""
    folder = job.output / VECTORS.work / "model"
    model.save_pretrained(folder)
    shared = (job, folder, model.precision, str(model.device), num_threads)
    with closing(run((write_part_in_worker, (part, *shared)) for part in parts)) as records:  # ends the workers
        for record in records:
            advance(record.input_bytes, record.counts["num_words"])
            yield record


def write_part_in_worker(
    part: Part, job: Job, folder: Path, precision: str, device: str, num_threads: int
) -> PartRecord:
    """Write a part in a worker process, which opens the model for its first part."""
    model = _open_model(folder, precision, device, num_threads)
    return commit_part(job, *write_part_files(part, lambda size, num_pieces=1: None, job, model))


@cache
def _open_model(folder: Path, precision: str, device: str, num_threads: int) -> Elmo:
    from elmo.heap import reuse_large_blocks

    reuse_large_blocks()
    if not folder.is_dir():
        raise InputError(
            f"The machine {platform.node()} of the Ray cluster cannot access {folder.parent.parent}; choose an output "
            "folder that all machines can access at the same path."
        )
    model = Elmo.from_pretrained(folder, format="elmo", precision=precision, device=device, num_threads=num_threads)
    if model.precision != precision:
        raise InputError(f"A worker does not support {precision}, unlike this machine; choose --precision float32.")
    return model


def write_locally(parts: Iterable[Part], advance: Advance, job: Job, model: Elmo) -> Iterator[PartRecord]:
    """Write one part after another in this process; each is flushed to disk while the next is computed (10% faster)."""
    with ThreadPoolExecutor(1) as executor:
        previous: Future[PartRecord] | None = None
        for part in parts:
            computed = write_part_files(part, advance, job, model)
            if previous is not None:
                yield previous.result()
            previous = executor.submit(commit_part, job, *computed)
        if previous is not None:
            yield previous.result()


def write_part_files(part: Part, advance: Advance, job: Job, model: Elmo) -> tuple[Path, PartRecord]:
    """Compute a part and write it to a temporary folder; return the folder and the record, which lists no files yet."""
    # FolderKind.begin removes such folders of a run that was interrupted.
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=job.output / VECTORS.work))
    rejects: list[dict[str, Any]] = []

    def reject(index: int, row: BrokenRow) -> None:
        source = part.source_of(index)
        if job.on_error == "stop":
            reason = f"{row.reason}; use --on-error reject to skip such rows"
            raise BrokenRow(row.number, reason).to_error(source.label, source.unit)
        rejects.append({"index": index, "input": source.name, source.unit: row.number, "reason": row.reason})

    embedder = RowEmbedder(model, job.settings, reject)
    reported_words = reported_bytes = 0
    file_format = job.settings.file_format
    with PART_WRITERS[file_format](part_path(temporary, part.number, file_format), embedder.layout) as add:
        for block in embedder.blocks(part.rows, part.first_index):
            add(block)
            num_rows = block.rows[-1]["index"] - part.first_index + 1
            bytes_done = int(part.input_bytes * (num_rows / len(part.rows)))
            advance(bytes_done - reported_bytes, embedder.counts.num_words - reported_words)
            reported_words, reported_bytes = embedder.counts.num_words, bytes_done
    advance(part.input_bytes - reported_bytes, embedder.counts.num_words - reported_words)
    counts = asdict(embedder.counts)
    record = PartRecord(job.identity, part.number, part.first_index, part.input_bytes, counts, rejects, files=[])
    return temporary, record


def commit_part(job: Job, temporary: Path, record: PartRecord) -> PartRecord:
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
    """Computes blocks of rows and counts the rows; broken rows are passed to `reject`."""

    def __init__(self, model: Elmo, settings: VectorSettings, reject: Callable[[int, BrokenRow], None]) -> None:
        self._model, self._settings, self._reject = model, settings, reject
        self._selected_words = frozenset(settings.only_words)
        self.layout = make_layout(model, settings)
        self.counts = Counts()

    def blocks(self, rows: Iterable[Row | BrokenRow], first_index: int = 0) -> Iterator[Block]:
        """Yield the rows in order, in blocks; if the model carries its state over, each row is a block."""
        self._model.clear_cache()
        max_rows = _MAX_ROWS_PER_BLOCK if self._model.state == "zero" else 1
        pending_rows: list[dict[str, Any]] = []
        num_words = 0
        for index, row in enumerate(rows, first_index):
            self.counts.num_rows += 1
            fields = self._prepare_row(index, row)
            if isinstance(fields, BrokenRow):
                self.counts.num_rejected += 1
                self._reject(index, fields)
                continue
            num_new = len(fields["words"])
            self.counts.num_words += num_new
            if self._settings.unit == "spans" and not fields["spans"]:
                self.counts.num_without_span += 1
                continue
            if len(pending_rows) == max_rows or (pending_rows and num_words + num_new > _MAX_WORDS_PER_BLOCK):
                yield self._make_block(pending_rows)
                pending_rows, num_words = [], 0
            pending_rows.append(fields)
            num_words += num_new
        if pending_rows:
            yield self._make_block(pending_rows)

    def _prepare_row(self, index: int, row: Row | BrokenRow) -> dict[str, Any] | BrokenRow:
        """Return the fields of a row for a Block, or the reason why the row is broken."""
        if isinstance(row, BrokenRow):
            return row
        settings, words = self._settings, row.content
        if isinstance(words, str):
            words = [word.text for word in self._model.tokenize(words, split_on_spaces=settings.split_on_spaces)]
        if len(words) > _MAX_WORDS_PER_ROW:
            reason = f"has {len(words):,} words, more than {_MAX_WORDS_PER_ROW:,}; split it with --split sentences"
            return BrokenRow(row.number, reason)
        fields: dict[str, Any] = {"index": index, "id": row.id, "words": words}
        if isinstance(row.content, str):
            fields["text"] = row.content
        if settings.unit == "spans":
            fields["spans"] = self._find_selected_spans(words) if self._selected_words else row.spans or []
            for start, end in fields["spans"]:
                if not 0 <= start < end <= len(words):
                    reason = f"has the span [{start}, {end}], which is not within its {len(words)} words"
                    return BrokenRow(row.number, reason)
        return fields

    def _find_selected_spans(self, words: list[str]) -> list[Span]:
        """Return the spans of the selected words; in a character-based model, a word can span several tokens."""
        if not self._model.tokenization.reads_characters:
            return [(position, position + 1) for position, word in enumerate(words) if word in self._selected_words]
        spans = set()
        for word in self._selected_words:
            tokens = [token.text for token in self._model.tokenize(word)]
            for start in range(len(words)):
                for end in (start + 1, start + len(tokens)):
                    if end <= len(words) and words[start:end] in ([word], tokens):
                        spans.add((start, end))
        return sorted(spans)

    def _make_block(self, rows: list[dict[str, Any]]) -> Block:
        vectors, counts = self._embed(rows)
        self.counts.num_written += len(rows)
        self.counts.num_vectors += sum(counts)
        return Block(rows, counts, convert_vectors(vectors, self._settings.dtype))

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
            # With all layers, embed returns (L+1, T, 2D); the file has one entry per word, (T, L+1, 2D).
            arrays = [array.transpose(1, 0, 2) if array.ndim == 3 else array for array in embedded]
        return np.concatenate(arrays), list(map(len, arrays))


def make_layout(model: Elmo, settings: VectorSettings) -> Layout:
    """Return the layout of all rows; raise InputError if the model does not have the layers."""
    layers = cast(Any, settings.layers)
    is_sentence = settings.unit == "sentences"
    shape = model.sentence_shape(settings.pooling, layers) if is_sentence else model.word_shape(layers)
    return Layout(settings.unit, settings.dtype, shape)


def convert_vectors(vectors: npt.NDArray[np.float32], dtype: DType) -> Arrays:
    """Convert vectors to the data type of the output; int8 has one scale per vector."""
    if dtype == "float32":
        return {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    if dtype == "float16":
        return {"vectors": np.clip(vectors, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16)}
    rounded, scales = quantize_rows(vectors)
    return {"vectors": rounded, "scales": scales}
