"""A job from start to end: inputs, settings and a model -> a folder of vectors.

The same call goes on where another one was stopped. The result depends neither on that nor on the workers.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

from elmo.checkpoint.fingerprint import context_fingerprint as context_hash
from elmo.checkpoint.fingerprint import fingerprint as content_hash
from elmo.errors import InputError
from elmo.files.durable import disk_full_reported, replace_file, sha256_of
from elmo.files.rows import to_json
from elmo.files.sources import STDIN, InputFile, Kind, Source, check_outside, copy_stdin
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.vectors.embedding import make_layout
from elmo.vectors.engines import Engine, InProcess, ModelPlace, Processes, share_threads
from elmo.vectors.folder import begin, check_same_job, describe_content, locked
from elmo.vectors.formats.choice import open_format
from elmo.vectors.manifest import FORMAT, MANIFEST, REJECTS, VERSION, describe_part, read_manifest
from elmo.vectors.part_record import (
    WORK,
    PartJob,
    PartRecord,
    count_finished_bytes,
    list_rejects,
    read_part_record,
)
from elmo.vectors.parts import Part, cut_parts
from elmo.vectors.rows import Columns, RowStream, find_inputs
from elmo.vectors.settings import JobSettings, Pooling
from elmo.vectors.vectors import Vectors, open_vectors
from elmo.vectors.verification import find_wrong_sizes
from elmo.version import __version__

logger = logging.getLogger(__name__)

_LIBRARIES = {"parquet": ["pyarrow"], "npy": ["numpy"], "hdf5": ["h5py"]}


@dataclass(frozen=True)
class JobProgress:
    """How far a run is; what an earlier run had finished counts as nothing to do."""

    num_words: int  # since the last call; the first call comes before any work
    num_bytes: int  # of the input, since the last call
    left_bytes: int  # of the input, when this run began


ProgressCallback = Callable[[JobProgress], None]


def run_job(
    model: Elmo,
    inputs: Sequence[str | Path],
    output: str | Path,
    settings: JobSettings | None = None,
    *,
    input_format: Kind | None = None,
    on_error: Literal["stop", "reject"] = "stop",
    workers: int | None = None,
    threads: int | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    force: bool = False,
    progress: ProgressCallback = lambda progress: None,
) -> Vectors:
    """Write the vectors of files, patterns such as `texts/*.jsonl.gz`, or standard input (-), and open them.

    `workers`: processes that compute, by default this one alone, with `model` as it is; `threads`: of all
    together. `engine="ray"`: workers of the Ray cluster at `address`, by default one for two of its cores.
    `on_error`: what a broken row does. A folder that holds this very job is opened as it is, or made again if a
    file of it is missing or has another size; one with another job is refused unless `force` is true.
    Raises InputError or ConfigError for what the caller can mend.
    """
    settings, output = _resolve(settings or JobSettings(), model), Path(output)
    if on_error not in ("stop", "reject"):
        raise InputError(f"on_error is {on_error!r}; choose 'stop' or 'reject'.")
    if model.state == "carry":
        raise InputError(
            "The parts of a folder do not follow each other in one worker; use a model of state='zero'."
        )
    _check_engine(engine, address)
    share_threads(workers, threads, on_cpu=model.device.type == "cpu")  # what cannot be is told first
    if threads is not None and workers is None and engine == "local":
        raise InputError("threads are shared by workers, but none were asked for; give workers too.")
    open_format(settings.file_format)
    sources = find_inputs([str(name) for name in inputs], output / WORK / "stdin", kind=input_format)
    check_outside((source.path for source in sources if source.name != STDIN), output)
    with disk_full_reported(output), locked(output):
        files = _open_inputs(sources)
        description = _describe(model, files, settings)
        if not force:
            check_same_job(output, description)
        manifest = read_manifest(output)
        damaged = find_wrong_sizes(output, manifest) if manifest is not None and not force else []
        if damaged:
            logger.warning(
                "%s is damaged (%s), so its vectors are computed again.", output, "; ".join(damaged[:3])
            )
        if force or damaged or manifest is None:
            begin(output, description, anew=force or bool(damaged))
            job = _make_part_job(output, settings, description, files, stops=on_error == "stop")
            chosen = _choose_engine(job, model, engine, address, workers, threads)
            _Job(job, files, description, chosen, progress).run()
    return open_vectors(output)


def _open_inputs(sources: Sequence[Source]) -> list[InputFile]:
    """Copy standard input to where it is read from, and describe all files."""
    copy_stdin(sources)
    for source in sources:
        if not source.path.is_file():
            raise InputError(f"{source.name} is a pipe or a device; pass its content on standard input (-).")
    return [InputFile.of(source, ends_only=True) for source in sources]


def _describe(model: Elmo, files: Sequence[InputFile], settings: JobSettings) -> dict[str, Any]:
    """Give the first part of the manifest: everything that decides the rest."""
    libraries = {name: version(name) for name in ["torch", "tokenizers", *_LIBRARIES[settings.file_format]]}
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_with": {"modern-elmo": __version__, **libraries},
        "model": {
            "content_hash": content_hash(model),
            **_describe_context(model, settings),
            "precision": model.precision,
            "device": model.device.type,
        },
        "settings": settings.to_dict(),
        "vector_shape": list(make_layout(model, settings).vector_shape),
        "inputs": [file.to_dict() for file in files],
    }


def _resolve(settings: JobSettings, model: Elmo) -> JobSettings:
    """Return the settings with what "auto" and no layers mean for this model."""
    pooling: Pooling = "mean"
    if settings.unit == "sentences":
        pooling = model.choose_pooling(settings.pooling, cast("Layers | None", settings.layers))
    layers = "average" if settings.layers is None and pooling != "weighted" else settings.layers
    return replace(settings, pooling=pooling, layers=layers)


def _describe_context(model: Elmo, settings: JobSettings) -> dict[str, str | None]:
    """Return the hash of the context layer where the vectors depend on it."""
    is_used = settings.layers == "meaning" or settings.pooling == "weighted"
    return {"context_hash": context_hash(model)} if is_used else {}


def _make_part_job(
    output: Path, settings: JobSettings, description: dict[str, Any], files: Sequence[InputFile], *, stops: bool
) -> PartJob:
    content = json.dumps(describe_content(description), sort_keys=True)
    identity = hashlib.sha256(content.encode()).hexdigest()
    return PartJob(output.resolve(), settings, identity, tuple(file.source for file in files), stops)


def _check_engine(engine: str, address: str | None) -> None:
    if engine not in ("local", "ray"):
        raise InputError(f"The engine {engine!r} is not known; choose local or ray.")
    if engine == "local" and address is not None:
        raise InputError("An address is that of a Ray cluster; give the engine ray too.")
    if engine == "ray":
        from elmo.vectors.ray_engine import check_cluster

        check_cluster(address)


def _choose_engine(
    job: PartJob, model: Elmo, engine: str, address: str | None, workers: int | None, threads: int | None
) -> Engine:
    on_cpu = model.device.type == "cpu"
    if engine == "local" and workers in (None, 1):
        return InProcess(job, model)
    num_workers, num_threads = share_threads(workers, threads, on_cpu=on_cpu)
    folder = job.output / WORK / "model"
    model.save_pretrained(folder)
    place = ModelPlace(folder, model.precision, str(model.device), num_threads)
    if engine == "ray":
        from elmo.vectors.ray_engine import RayCluster

        return RayCluster(job, place, address, workers, threads)
    return Processes(job, place, num_workers)


class _Job:
    """One run, from the input files to the manifest."""

    def __init__(
        self,
        job: PartJob,
        files: Sequence[InputFile],
        description: dict[str, Any],
        engine: Engine,
        progress: ProgressCallback,
    ) -> None:
        self.job, self.files, self.description, self.engine = job, files, description, engine
        self.progress, self.reporting = progress, threading.Lock()
        self.left_bytes = sum(file.num_bytes for file in files) - count_finished_bytes(job)

    def run(self) -> None:
        settings = self.job.settings
        columns = Columns(settings.column, settings.id_column, settings.spans)
        stream = RowStream([file.source for file in self.files], columns)
        records: dict[int, PartRecord] = {}
        self._report(0, 0)

        def missing() -> Iterator[Part]:
            for part in cut_parts(stream, settings.part_bytes):
                if (record := read_part_record(self.job, part)) is None:
                    self.job.check(list_rejects(part.entries))
                    yield part
                else:
                    self.job.check(record.rejects)
                    records[part.number] = record

        for record in self.engine.run(missing(), self._report):
            records[record.number] = record
        for file in self.files:
            file.check_unchanged()
        self._finish([records[number] for number in range(len(records))], stream.num_rows)

    def _report(self, num_words: int, num_bytes: int) -> None:
        with self.reporting:  # workers may report from several threads
            self.progress(JobProgress(num_words, num_bytes, self.left_bytes))

    def _finish(self, records: Sequence[PartRecord], rows_of_files: Sequence[int]) -> None:
        output = self.job.output
        rejects = [reject for record in records for reject in record.rejects]
        rejected = None
        if rejects:
            lines = (
                to_json(
                    {
                        "index": reject.index,
                        "input": self.job.inputs[reject.source].name,
                        self.job.inputs[reject.source].unit: reject.number,
                        "reason": reject.reason,
                    }
                )
                for reject in rejects
            )
            replace_file(output / REJECTS, "".join(f"{line}\n" for line in lines).encode())
            path = output / REJECTS
            rejected = {"name": REJECTS, "num_bytes": path.stat().st_size, "sha256": sha256_of(path)}
        counts = {
            name: sum(getattr(record, name) for record in records)
            for name in ("num_rows", "num_written", "num_without_span", "num_words", "num_vectors")
        }
        inputs = [
            {**described, "num_rows": num_rows}
            for described, num_rows in zip(self.description["inputs"], rows_of_files, strict=True)
        ]
        manifest = {
            **self.description,
            "inputs": inputs,
            "counts": {**counts, "num_rejected": len(rejects)},
            "rejects": rejected,
            "parts": [describe_part(record) for record in records],
        }
        replace_file(output / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())
