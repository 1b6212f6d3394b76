"""Compute the vectors of text files and write a folder, or one file: `elmo embed` and `elmo encode`.

For a folder, the same call resumes an interrupted one. The result does not depend on interruptions or on the number of
workers.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from elmo.config import Pooling
from elmo.corpus.rows import Columns, Part, Row, cut_rows
from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import output_file, replace_file
from elmo.files.rows import to_json
from elmo.files.sources import BrokenRow, InputFile, InputFormat, Source, open_inputs
from elmo.files.work_folder import identify, record_file, run_parts
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.progress import Advance
from elmo.vectors.folder import REJECTS, VECTORS, PartRecord, read_part_records, sum_counts
from elmo.vectors.formats import FILE_WRITERS, Add, Layout, line_writer
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings
from elmo.vectors.writing import Job, RowEmbedder, make_layout, open_workers, write_in_workers, write_locally

_LIBRARIES = {"parquet": "pyarrow", "npy": "numpy"}


def embed_files(
    model: Elmo,
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    settings: VectorSettings | None = None,
    *,
    input_format: InputFormat | None = None,
    on_error: Literal["stop", "reject"] = "stop",
    num_workers: int | None = None,
    num_threads: int | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    force: bool = False,
    show_progress_bar: bool = False,
) -> Vectors:
    """Write the vectors of files, patterns such as `texts/*.jsonl.gz`, or standard input (-), and open them.

    `num_workers`: the number of processes, by default only this process with `model` itself; `num_threads`: the total
    of all workers. `engine="ray"`: workers of the Ray cluster at `address`, by default one per two of its cores.
    `on_error`: stop at a broken row, or list it in rejects.jsonl. If the folder already holds the result, it is only
    opened, or computed again if a file is missing or has the wrong size; other vectors are an error unless `force`
    is true. Raises InputError or ConfigError for mistakes that the caller can fix.
    """
    settings, output = resolve(settings or VectorSettings(), model), Path(output)
    if on_error not in ("stop", "reject"):
        raise InputError(f"on_error is {on_error!r}; choose 'stop' or 'reject'.")
    if model.state == "carry":
        raise InputError(
            "The parts of a folder are computed independently, so state must be 'zero'; write one file instead, such "
            "as vectors.h5."
        )
    if settings.file_format == "parquet":
        require("pyarrow", "data", "Parquet")
    sources = VECTORS.find_inputs(files, output, format=input_format)
    with (
        open_workers(engine, address, num_workers, num_threads, model) as (run, worker_threads),
        VECTORS.locked(output),
    ):
        inputs = open_inputs(sources)
        description = _describe(model, inputs, settings)
        if VECTORS.begin(output, description, force=force):
            job = Job(output.resolve(), settings, identify(description), on_error)
            write = write_locally if run is None else partial(write_in_workers, run, worker_threads)
            _run(job, inputs, description, partial(write, job=job, model=model), show_progress_bar)
    return open_folder(output)


def columns_of(settings: VectorSettings) -> Columns:
    """Return the columns to read from the input."""
    return Columns(settings.column, settings.id_column, settings.spans, settings.split, settings.language)


def resolve(settings: VectorSettings, model: Elmo) -> VectorSettings:
    """Return the settings with the model's defaults for pooling "auto" and missing layers."""
    pooling: Pooling = "mean"
    if settings.unit == "sentences":
        pooling = model._embedder.choose_pooling(settings.pooling, cast("Layers | None", settings.layers))
    layers = settings.layers
    if layers is None and pooling not in ("head", "weighted"):
        # For words, the layers that distinguish meanings best.
        layers = "average" if settings.unit == "sentences" or model.context is None else "meaning"
    return replace(settings, pooling=pooling, layers=layers)


def _describe(model: Elmo, inputs: Sequence[InputFile], settings: VectorSettings) -> dict[str, Any]:
    checkpoint = model.checkpoint()
    hashes: dict[str, Any] = {"content_hash": checkpoint.fingerprint()}
    if settings.layers == "meaning" or settings.pooling in ("head", "weighted"):
        hashes["context_hash"] = checkpoint.context_hash()
    if settings.pooling == "head" and checkpoint.sentence is not None:
        hashes["sentence_hash"] = checkpoint.sentence.content_hash()
    return VECTORS.describe(
        inputs,
        ("tokenizers", _LIBRARIES[settings.file_format]),
        model={**hashes, "precision": model.precision, "device": str(model.device).partition(":")[0]},
        settings=settings.to_dict(),
        vector_shape=list(make_layout(model, settings).vector_shape),
    )


def _run(
    job: Job,
    inputs: Sequence[InputFile],
    description: dict[str, Any],
    write: Callable[[Iterator[Part], Advance], Iterable[PartRecord]],
    show_progress_bar: bool,
) -> None:
    """Write the parts, the list of rejected rows, and the manifest."""
    finished = read_part_records(job.output, job.identity)
    if job.on_error == "stop":  # a part with broken rows is computed again, and stops there
        finished = {number: record for number, record in finished.items() if not record.rejects}
    num_rows: Counter[Source] = Counter()

    def cut_parts() -> Iterator[Part]:
        sources = [file.source for file in inputs]
        for part in cut_rows(sources, columns_of(job.settings), job.settings.part_bytes, keep_broken=True):
            num_rows.update(part.num_rows)
            yield part

    work = job.output / VECTORS.work
    records = run_parts(cut_parts(), finished, write, inputs, work, show_progress_bar=show_progress_bar)
    lines = [f"{to_json(reject)}\n" for record in records for reject in record.rejects]
    if lines:
        replace_file(job.output / REJECTS, "".join(lines).encode())
    manifest = {
        **description,
        "inputs": [{**file.to_dict(), "num_rows": num_rows[file.source]} for file in inputs],
        "counts": sum_counts(records),
        "rejects": {"name": REJECTS, **record_file(job.output / REJECTS)} if lines else None,
        "parts": [record.describe() for record in records],
    }
    VECTORS.finish(job.output, manifest)


def write_file(
    model: Elmo, rows: Iterable[Row | BrokenRow], path: Path | None, settings: VectorSettings
) -> tuple[int, int]:
    """Write the vectors of rows to one file, in the format of its extension, or as JSON lines to standard output.

    Returns the numbers of rows and words. Raises InputError for a row that cannot be read.
    """

    def stop(index: int, row: BrokenRow) -> None:
        raise InputError(f"Row {index + 1:,} {row.reason}.")

    embedder = RowEmbedder(model, settings, stop)
    with _open_output(path, embedder.layout) as add:
        for block in embedder.blocks(rows):
            add(block)
    return embedder.counts.num_written, embedder.counts.num_words


@contextmanager
def _open_output(path: Path | None, layout: Layout) -> Iterator[Add]:
    if path is None:
        yield line_writer(sys.stdout.buffer, layout)
        return
    with output_file(path) as temporary, FILE_WRITERS[path.suffix.lower()](temporary, layout) as add:
        yield add
