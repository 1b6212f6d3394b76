"""Text files, settings and a model -> a folder of vectors, or one file: `elmo embed` and `elmo encode`.

For a folder, the same call resumes an interrupted one. The result does not depend on interruptions or on the number of
workers.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, cast

from elmo.config import Pooling
from elmo.corpus.rows import Columns, Part, Row, cut_rows, raise_error
from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import output_file, replace_file
from elmo.files.rows import to_json
from elmo.files.sources import BrokenRow, InputFile, InputFormat, Source, open_inputs
from elmo.files.work_folder import ProgressCallback, identify, record_file, run_parts
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.vectors.folder import COUNTS, REJECTS, VECTORS, PartRecord, read_part_records
from elmo.vectors.formats import FILE_WRITERS, Add, Layout, line_writer
from elmo.vectors.reading import Vectors, open_folder
from elmo.vectors.settings import VectorSettings
from elmo.vectors.writing import Engine, PartJob, RowEmbedder, make_layout

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
    show_progress_bar: bool | Callable[[int, int], None] = False,
) -> Vectors:
    """Write the vectors of files, patterns such as `texts/*.jsonl.gz`, or standard input (-), and open them.

    `num_workers`: the number of processes, by default only this process with `model` itself; `num_threads`: the total
    of all workers. `engine="ray"`: workers of the Ray cluster at `address`, by default one per two of its cores.
    `on_error`: stop at a broken row, or list it in rejects.jsonl. If the folder already holds the result, it is only
    opened, or computed again if a file is missing or has the wrong size; other vectors are an error unless `force`
    is true. `show_progress_bar` may be a function, which is called with the numbers of words and bytes of each
    step. Raises InputError or ConfigError for mistakes that the caller can fix.
    """
    settings, output = resolve(settings or VectorSettings(), model), Path(output)
    if on_error not in ("stop", "reject"):
        raise InputError(f"on_error is {on_error!r}; choose 'stop' or 'reject'.")
    if model.state == "carry":
        raise InputError(
            "The parts of a folder are computed independently, so state must be 'zero'; write one file instead, such "
            "as vectors.h5."
        )
    part_engine = Engine(engine, address, num_workers, num_threads)
    part_engine.check()
    if settings.file_format == "parquet":
        require("pyarrow", "data", "Parquet")
    sources = VECTORS.find_inputs(files, output, format=input_format)
    with VECTORS.locked(output):
        inputs = open_inputs(sources)
        description = _describe(model, inputs, settings)
        if VECTORS.begin(output, description, force=force):
            job = PartJob(output.resolve(), settings, identify(description))
            _run(job, inputs, description, part_engine, model, show_progress_bar, stops=on_error == "stop")
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
    uses_context = settings.layers == "meaning" or settings.pooling in ("head", "weighted")
    head = model.checkpoint().sentence if settings.pooling == "head" else None
    hashes: dict[str, Any] = {"content_hash": model.checkpoint().fingerprint()}
    if uses_context:
        hashes["context_hash"] = model.checkpoint().context_hash()
    if head is not None:
        hashes["sentence_hash"] = head.content_hash()
    return VECTORS.describe(
        inputs,
        ("tokenizers", _LIBRARIES[settings.file_format]),
        model={**hashes, "precision": model.precision, "device": str(model.device).partition(":")[0]},
        settings=settings.to_dict(),
        vector_shape=list(make_layout(model, settings).vector_shape),
    )


def _run(
    job: PartJob,
    inputs: Sequence[InputFile],
    description: dict[str, Any],
    engine: Engine,
    model: Elmo,
    progress: bool | ProgressCallback,
    *,
    stops: bool,
) -> None:
    """Write the parts, the list of rejected rows, and the manifest; `stops`: raise an error at a broken row."""
    settings, sources = job.settings, [file.source for file in inputs]
    finished = read_part_records(job.output, job.identity)
    num_rows = [0] * len(sources)

    def stop(row: BrokenRow, source: Source) -> None:
        raise_error(replace(row, reason=f"{row.reason}; --on-error reject skips such rows"), source)

    def check(record: PartRecord) -> PartRecord:
        for reject in record.rejects if stops else ():
            source = sources[bisect_right(list(accumulate(num_rows)), reject["index"])]
            stop(BrokenRow(reject["number"], reject["reason"]), source)
        return record

    def cut_parts() -> Iterator[Part]:
        handle_broken = stop if stops else lambda row, source: None
        for part in cut_rows(sources, columns_of(settings), settings.part_bytes, handle_broken=handle_broken):
            for number, num_new in part.num_rows.items():
                num_rows[number] += num_new
            if part.number in finished:
                check(finished[part.number])
            yield part

    def compute(parts: Iterator[Part], report: ProgressCallback) -> Iterator[PartRecord]:
        with closing(engine.run(parts, report, job, model)) as computed:  # an error must end the workers first
            yield from map(check, computed)

    records = run_parts(cut_parts(), finished, compute, inputs, job.output / VECTORS.work, progress)
    lines, ends = [], list(accumulate(num_rows))
    for reject in (reject for record in records for reject in record.rejects):
        source = sources[bisect_right(ends, reject["index"])]
        place = {"index": reject["index"], "input": source.name, source.unit: reject["number"]}
        lines.append(f"{to_json({**place, 'reason': reject['reason']})}\n")
    if lines:
        replace_file(job.output / REJECTS, "".join(lines).encode())
    manifest = {
        **description,
        "inputs": [{**file, "num_rows": num} for file, num in zip(description["inputs"], num_rows, strict=True)],
        "counts": {name: sum(getattr(record, name) for record in records) for name in COUNTS},
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
    embedder = RowEmbedder(model, settings)
    with _open_output(path, embedder.layout) as add:
        for block in embedder.blocks(rows):
            add(block)
        for reject in embedder.rejects:
            raise InputError(f"Row {reject['index'] + 1:,} {reject['reason']}.")
    return embedder.num_written, embedder.num_words


@contextmanager
def _open_output(path: Path | None, layout: Layout) -> Iterator[Add]:
    if path is None:
        yield line_writer(sys.stdout.buffer, layout)
        return
    with output_file(path) as temporary, FILE_WRITERS[path.suffix.lower()](temporary, layout) as add:
        yield add
