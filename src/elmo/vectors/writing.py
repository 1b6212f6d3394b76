"""Parts -> their files in the folder and their records.

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
from typing import Literal

from elmo.corpus.rows import Part
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.files.sources import BrokenRow, Source
from elmo.files.work_folder import describe_output
from elmo.files.workers import Call, RayWorkers, Report, Workers, check_cluster, count_cores
from elmo.model import Elmo
from elmo.vectors.blocks import RowEmbedder, is_on_cpu
from elmo.vectors.folder import WORK, PartRecord, Reject, list_rejects, write_part_record
from elmo.vectors.formats import PART_FORMATS, part_stem
from elmo.vectors.settings import VectorSettings

# One core per direction: every matrix multiplication then uses one thread, and its result does not depend on how
# many workers share the cores.
THREADS_PER_WORKER = 2
_ATTEMPTS = 3  # of a part whose worker died


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

    def run(self, parts: Iterator[Part], job: PartJob, model: Elmo, report: Report) -> Iterator[PartRecord]:
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
            with Workers(num_workers, attempts=_ATTEMPTS) as workers:
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
    """Where a worker opens the model, and how: a copy that nobody changes."""

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


def _write_here(parts: Iterable[Part], writer: "PartWriter", report: Report) -> Iterator[PartRecord]:
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


def write_in_worker(part: Part, job: PartJob, place: ModelPlace, report: Report) -> PartRecord:
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
    """Return the number of workers and the threads of each, from what was asked for and the available cores."""
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


class PartWriter:
    """Writes parts of one job with one model."""

    def __init__(self, job: PartJob, model: Elmo) -> None:
        self._job, self._model = job, model

    def begin(self, part: Part, report: Report) -> Callable[[], PartRecord]:
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

    def _write(self, part: Part, temporary: Path, report: Report) -> PartRecord:
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
                num_written += len(block.indexes)
                num_vectors += sum(block.counts)
                num_entries = block.indexes[-1] - first_index + 1
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
