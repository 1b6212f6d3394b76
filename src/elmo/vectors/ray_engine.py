"""The workers of a Ray cluster, on any number of machines, that all see the output folder under the same name.

Ray starts a worker again, elsewhere if need be, when it dies, and repeats the part it had.
"""

import platform
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from elmo.errors import ElmoError, InputError
from elmo.vectors.engines import ModelPlace, share_threads
from elmo.vectors.part_record import PartJob, PartRecord
from elmo.vectors.part_writer import PartWriter, Report
from elmo.vectors.parts import Part

_RETRIES = 3  # of a part whose worker died
_CONNECTION_SECONDS = 10
_RESTARTS = -1  # of a worker: as often as needed


class RayCluster:
    """Workers of an existing cluster, or of one that is started on this machine where no address is given."""

    def __init__(
        self, job: PartJob, place: ModelPlace, address: str | None, workers: int | None, threads: int | None
    ) -> None:
        """`workers` and `threads` are what was asked for; by default what the cluster has."""
        self._ray = _import_ray()
        self._job, self._place, self._address = job, place, address
        self._workers, self._threads = workers, threads

    def run(self, parts: Iterable[Part], report: Report) -> Iterator[PartRecord]:
        """Write the parts; each worker has one at a time."""
        with _connected(self._ray, self._address):
            yield from self._run(iter(parts), report)

    def _run(self, parts: Iterator[Part], report: Report) -> Iterator[PartRecord]:
        ray = self._ray
        resources = ray.cluster_resources()
        on_cpu = not self._place.device.startswith("cuda")
        wanted = self._workers if on_cpu else self._workers or int(resources.get("GPU", 1))
        num_cores = int(resources.get("CPU", 1))
        num_workers, num_threads = share_threads(wanted, self._threads, num_cores=num_cores, on_cpu=on_cpu)
        remote = ray.remote(_Worker).options(
            max_restarts=_RESTARTS,
            max_task_retries=_RETRIES,
            num_cpus=num_threads,
            num_gpus=0 if on_cpu else 1,
        )
        place = replace(self._place, num_threads=num_threads)
        workers = [remote.remote(self._job, place) for _ in range(num_workers)]
        running: dict[Any, Any] = {}
        try:
            while True:
                for worker in [each for each in workers if each not in running.values()]:
                    if (part := next(parts, None)) is not None:
                        running[worker.write.remote(part)] = worker
                if not running:
                    return
                finished, _ = ray.wait(list(running), num_returns=1)
                del running[finished[0]]
                record = self._result(finished[0])
                report(record.num_words, record.input_bytes)
                yield record
        finally:
            for worker in workers:
                ray.kill(worker)

    def _result(self, reference: Any) -> PartRecord:
        exceptions = self._ray.exceptions
        try:
            record: PartRecord = self._ray.get(reference)
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ElmoError | OSError):
                raise cause from error
            raise
        except exceptions.RayActorError as error:
            reason = str(error).partition("\n")[0]
            raise ElmoError(
                f"A Ray worker died and could not be replaced ({reason}); the finished parts are kept, so run the "
                "same command again."
            ) from error
        return record


class _Worker:
    """What runs on the cluster: opens the model once and writes the parts it is given."""

    def __init__(self, job: PartJob, place: ModelPlace) -> None:
        from elmo.heap import reuse_large_blocks

        self._job, self._place = job, place
        self._writer: PartWriter | None = None
        reuse_large_blocks()

    def write(self, part: Part) -> PartRecord:
        if self._writer is None:
            if not self._place.folder.is_dir():
                raise InputError(
                    f"The machine {platform.node()} of the Ray cluster does not see {self._job.output}; give "
                    "an output folder that all machines see under the same name."
                )
            self._writer = PartWriter(self._job, self._place.open())
        return self._writer.write(part, lambda num_words, num_bytes: None)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("The engine ray needs Ray; install it with: pip install 'modern-elmo[ray]'") from error
    return ray


def check_cluster(address: str | None) -> None:
    """Raise InputError if there is no Ray, or nobody listens at the address."""
    if not _import_ray().is_initialized():
        _check_reachable(address)


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Be a client of the cluster, or of the one that the caller is connected to already."""
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_cluster(address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise InputError at once if nobody listens there; Ray itself would wait for minutes."""
    place = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or "")
    if place is not None:
        try:
            socket.create_connection((place[1], int(place[2])), timeout=_CONNECTION_SECONDS).close()
        except OSError as error:
            raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: Exception) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"There is no Ray cluster at {address!r} ({reason}); start one with: ray start --head")
