"""A part -> its files in the folder, and a record of them. What a worker does, wherever it runs."""

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from elmo.files.durable import sha256_of, sync
from elmo.model import Elmo
from elmo.vectors.embedding import PartEmbedder
from elmo.vectors.formats.choice import open_format
from elmo.vectors.formats.part_format import part_stem
from elmo.vectors.part_record import WORK, PartJob, PartRecord, WrittenFile, list_rejects, write_part_record
from elmo.vectors.parts import Part

Report = Callable[[int, int], None]  # words and bytes of input done since the last call


class PartWriter:
    """Writes parts of one job with one model."""

    def __init__(self, job: PartJob, model: Elmo) -> None:
        self._job, self._model = job, model

    def write(self, part: Part, report: Report) -> PartRecord:
        """Write a part's files, then its record; `report` is told how it goes on."""
        return self.begin(part, report)()

    def begin(self, part: Part, report: Report) -> Callable[[], PartRecord]:
        """Write a part's files aside; what is given brings them to the disk, and another thread may call it."""
        aside = Path(tempfile.mkdtemp(prefix=f"{part_stem(part.number)}-", dir=self._job.output / WORK))
        try:
            counts = self._write_aside(part, aside, report)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return partial(self._finish, aside, counts)

    def _finish(self, aside: Path, record: PartRecord) -> PartRecord:
        try:
            paths = sorted(aside.iterdir())
            files = tuple(WrittenFile(path.name, path.stat().st_size, sha256_of(path)) for path in paths)
            for path in paths:
                sync(path)
            # The record first: a file in the folder is known to be ours from the moment it is there.
            record = replace(record, files=files)
            write_part_record(self._job.output, record)
            for path in paths:
                path.replace(self._job.output / path.name)
            sync(self._job.output)
            return record
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _write_aside(self, part: Part, aside: Path, report: Report) -> PartRecord:
        """Give the record without the files."""
        embedder = PartEmbedder(self._model, self._job.settings)
        stem = aside / part_stem(part.number)
        num_written = num_vectors = reported_words = reported_bytes = 0
        open_part = open_format(self._job.settings.file_format).write
        # A block is written while the next one is made.
        with open_part(stem, embedder.layout) as add, ThreadPoolExecutor(1) as writing:
            written = None
            for block in embedder.blocks(part):
                if written is not None:
                    written.result()
                written = writing.submit(add, block)
                num_written += len(block.indexes)
                num_vectors += len(block.vectors)
                done = (block.indexes[-1] - part.entries[0].index + 1) / len(part.entries)
                so_far = int(part.input_bytes * done)
                report(embedder.num_words - reported_words, so_far - reported_bytes)
                reported_words, reported_bytes = embedder.num_words, so_far
            if written is not None:
                written.result()
        rejects = list_rejects(embedder.broken)
        self._job.check(rejects)
        report(embedder.num_words - reported_words, part.input_bytes - reported_bytes)
        return PartRecord(
            identity=self._job.identity,
            number=part.number,
            first_index=part.entries[0].index,
            num_rows=len(part.entries),
            num_written=num_written,
            num_without_span=embedder.num_without_span,
            num_words=embedder.num_words,
            num_vectors=num_vectors,
            input_bytes=part.input_bytes,
            input_sha256=part.sha256,
            files=(),
            rejects=rejects,
        )
