"""Who computes the parts of a job: this process, or several on this machine. Ray is in ray_engine.py."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from elmo.corpus.workers import Call, Workers
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.vectors.part_record import PartJob, PartRecord
from elmo.vectors.part_writer import PartWriter, Report
from elmo.vectors.parts import Part

# One core for each direction: every product is then made by one thread, and comes out the same however many
# workers share the cores.
THREADS_PER_WORKER = 2
_ATTEMPTS = 3  # of a part whose worker died


class Engine(Protocol):
    """Runs a job's parts, few of them ahead, and gives their records in any order."""

    def run(self, parts: Iterable[Part], report: Report) -> Iterator[PartRecord]:
        """Write the parts."""
        ...


@dataclass(frozen=True)
class ModelPlace:
    """Where a worker opens the model from, and how: a copy that nobody changes."""

    folder: Path
    precision: str
    device: str
    num_threads: int

    def open(self) -> Elmo:
        """Open it; InputError if this machine cannot compute with its precision."""
        import torch

        torch.set_num_threads(self.num_threads)
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


class InProcess:
    """This process computes one part after the other."""

    def __init__(self, job: PartJob, model: Elmo) -> None:
        self._writer = PartWriter(job, model)

    def run(self, parts: Iterable[Part], report: Report) -> Iterator[PartRecord]:
        """Write the parts; one is brought to the disk while the next is computed."""
        with ThreadPoolExecutor(1) as finishing:
            last: Future[PartRecord] | None = None
            for part in parts:
                finish = self._writer.begin(part, report)
                if last is not None:
                    yield last.result()
                last = finishing.submit(finish)
            if last is not None:
                yield last.result()


class Processes:
    """Several processes on this machine; one that dies is replaced and its part done again."""

    def __init__(self, job: PartJob, place: ModelPlace, num_workers: int) -> None:
        self._job, self._place, self._num_workers = job, place, num_workers

    def run(self, parts: Iterable[Part], report: Report) -> Iterator[PartRecord]:
        """Write the parts."""
        calls: Iterator[Call] = ((write_in_worker, (part, self._job, self._place)) for part in parts)
        with Workers(self._num_workers, attempts=_ATTEMPTS) as workers:
            yield from workers.run(calls, report)


_opened: dict[tuple[PartJob, ModelPlace], PartWriter] = {}


def write_in_worker(part: Part, job: PartJob, place: ModelPlace, report: Report) -> PartRecord:
    """Write a part in a process of its own, which opens the model for the first one."""
    from elmo.heap import reuse_large_blocks

    if (job, place) not in _opened:
        reuse_large_blocks()
        _opened[job, place] = PartWriter(job, place.open())
    return _opened[job, place].write(part, report)


def count_cores() -> int:
    """Give the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_threads(
    workers: int | None, threads: int | None, *, num_cores: int | None = None, on_cpu: bool = True
) -> tuple[int, int]:
    """Give the number of workers and the threads of each, from what was asked for and the cores there are."""
    num_cores = num_cores or count_cores()
    if workers is not None and workers < 1:
        raise InputError(f"--workers is {workers}; give 1 or more.")
    if threads is not None and threads < 1:
        raise InputError(f"--threads is {threads}; give 1 or more.")
    if not on_cpu:
        return workers or 1, threads or 1
    if workers is None:
        workers = -(-(threads or num_cores) // THREADS_PER_WORKER)
    elif threads is not None and threads > workers * THREADS_PER_WORKER:
        raise InputError(
            f"--threads is {threads}, but a worker uses at most {THREADS_PER_WORKER}, and --workers is {workers}; "
            f"give --workers {-(-threads // THREADS_PER_WORKER)}, or fewer threads."
        )
    return workers, max(1, min(THREADS_PER_WORKER, (threads or num_cores) // workers))
