"""A folder of vectors as a command makes it: with a bar, and a line about the result."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.cli.job_options import Engine, JobOptions, OnError
from elmo.cli.options import State
from elmo.cli.resuming import resumable
from elmo.errors import InputError
from elmo.heap import reuse_large_blocks
from elmo.progress import Advance, progress_bar

if TYPE_CHECKING:
    from elmo.model import Elmo
    from elmo.vectors.job import JobProgress, ProgressCallback
    from elmo.vectors.settings import Unit


def write_folder(
    inputs: Sequence[str] | None,
    texts: Sequence[str] | None,
    output: Path,
    options: JobOptions,
    *,
    unit: "Unit",
    settings: dict[str, Any],
    opening: "partial[Elmo]",
    threads: int | None,
) -> None:
    """Run a job; `settings` are those of the command, `opening` opens the model."""
    if texts:
        raise InputError("--text goes with standard output or one file; name files, or -, to fill a folder.")
    if not inputs:
        raise InputError("Nothing to read; name files, or - for standard input.")
    if opening.keywords["state"] is State.carry:
        raise InputError(
            "--state carry reads one sentence after another, but the parts of a folder are computed by "
            "themselves; write one file instead, such as vectors.h5."
        )
    from elmo.vectors.engines import share_threads
    from elmo.vectors.job import run_job
    from elmo.vectors.manifest import MANIFEST
    from elmo.vectors.settings import JobSettings

    given = {name: getattr(options, name) for name in ("column", "id_column", "part_bytes", "max_words")}
    for name in ("file_format", "dtype"):
        given[name] = None if getattr(options, name) is None else getattr(options, name).value
    chosen = JobSettings(
        unit=unit, **settings, **{name: value for name, value in given.items() if value is not None}
    )
    on_ray = options.engine is Engine.ray
    on_cpu = opening.keywords["device"] == "cpu"
    workers, threads_each = share_threads(
        None if on_ray else options.workers, None if on_ray else threads, on_cpu=on_cpu
    )
    reuse_large_blocks()
    model = opening(threads=threads_each)
    before = (output / MANIFEST).stat().st_mtime_ns if (output / MANIFEST).is_file() else None
    with resumable(), _shown() as progress:
        vectors = run_job(
            model,
            inputs,
            output,
            chosen,
            input_format=options.kind,
            on_error="reject" if options.on_error is OnError.reject else "stop",
            workers=options.workers if on_ray else workers,
            threads=threads if on_ray else workers * threads_each,
            engine="ray" if on_ray else "local",
            address=options.address,
            force=options.force,
            progress=progress,
        )
    counts = vectors.manifest.values["counts"]
    facts = {"rows": counts["num_written"], "words": counts["num_words"], "vectors": counts["num_vectors"]}
    if unit == "spans":
        facts["rows without a chosen word"] = counts["num_without_span"]
    if counts["num_rejected"]:
        facts["rejected rows, see rejects.jsonl"] = counts["num_rejected"]
    listed = ", ".join(f"{name}: {number:,}" for name, number in facts.items())
    is_old = before is not None and (output / MANIFEST).stat().st_mtime_ns == before
    print(f"{output} was finished already ({listed})." if is_old else f"Wrote {output} ({listed}).")


@contextmanager
def _shown() -> "Iterator[ProgressCallback]":
    with ExitStack() as stack:
        advance: Advance | None = None

        def show(progress: "JobProgress") -> None:
            nonlocal advance
            if advance is None:  # the first call comes before any work, and tells how much there is
                bar = progress_bar(unit="words", num_bytes=progress.left_bytes, prints=False)
                advance = stack.enter_context(bar)
            advance(progress.num_bytes, progress.num_words)

        yield show
