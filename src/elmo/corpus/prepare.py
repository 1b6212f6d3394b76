"""Raw text -> a folder that a trainer reads (see corpus.py): parts, one word list, vocabulary, shards, manifest.

Parts are finished one by one and kept, so the same call goes on where another one was stopped; the manifest
is written last. The result does not depend on the number of workers. Nothing is trained here.
"""

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from elmo.corpus.output_folder import PARTS, WORK, clear_output, describe_content, is_finished, locked
from elmo.corpus.part_words import PartRecord, part_folder, read_part_record, write_part
from elmo.corpus.prepared import FORMAT, MANIFEST, VERSION, VOCABULARY, PreparedCorpus
from elmo.corpus.progress import Meter, PrepareProgress, ProgressCallback
from elmo.corpus.settings import PrepareSettings, read_vocabulary
from elmo.corpus.shards import BLOCK_TOKENS, SHARDS, ShardRecord, write_shard
from elmo.corpus.text import cut_parts
from elmo.corpus.vocabulary_choice import choose_vocabulary
from elmo.corpus.word_lists import merge_all
from elmo.corpus.word_table import TARGETS, WordTable, write_targets, write_words
from elmo.corpus.workers import Call, Workers
from elmo.errors import InputError
from elmo.files.durable import FileRecord, disk_full_reported, replace_file, sync, write_file
from elmo.files.sources import STDIN, InputFile, Source, check_outside, copy_stdin, find_sources
from elmo.text.vocabulary import format_lines
from elmo.version import __version__

__all__ = ["PrepareProgress", "PrepareSettings", "default_workers", "prepare_corpus"]

_MOST_WORKERS_BY_DEFAULT = 8  # so that all of them together stay below 2 GiB


def default_workers() -> int:
    """Give the number of cores this process may use, at most 8."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST_WORKERS_BY_DEFAULT)


def prepare_corpus(
    inputs: Sequence[str | Path],
    output: str | Path,
    settings: PrepareSettings | None = None,
    progress: ProgressCallback | None = None,
    *,
    workers: int | None = None,
    force: bool = False,
) -> PreparedCorpus:
    """Prepare text files, patterns such as `texts/*.txt.xz`, or standard input (-), and open the result.

    A folder that holds this very corpus already is opened as it is; one with another corpus is refused
    unless `force` is true. `progress` is called now and then, perhaps from another thread.
    Raises InputError or ConfigError for what the caller can mend.
    """
    settings, output = settings or PrepareSettings(), Path(output)
    num_workers = default_workers() if workers is None else workers
    if num_workers < 1:
        raise InputError(f"workers is {num_workers}; at least 1 is needed.")
    if settings.vocabulary is not None:
        read_vocabulary(settings.vocabulary)
    sources = find_sources([str(name) for name in inputs], output / WORK / "stdin.txt")
    read = [source.path for source in sources if source.name != STDIN]
    check_outside(read if settings.vocabulary is None else [*read, Path(settings.vocabulary)], output)
    meter = Meter(progress or (lambda state: None))
    with disk_full_reported(output), locked(output):
        files = _read_files(sources, meter)
        description = _describe(files, settings)
        if force or not is_finished(output, description):
            clear_output(output, parts_too=force)
            _Preparation(files, output, settings, description, num_workers, meter).run()
    return PreparedCorpus.open(output)


def _read_files(sources: Sequence[Source], meter: Meter) -> list[InputFile]:
    copy_stdin(sources)
    meter.begin("hashing", sum(source.path.stat().st_size for source in sources))
    return [InputFile.of(source, lambda size: meter.advance(0, size)) for source in sources]


def _describe(files: Sequence[InputFile], settings: PrepareSettings) -> dict[str, Any]:
    """Give the first part of the manifest: everything that decides the rest."""
    libraries = {name: version(name) for name in ("tokenizers", "sentencex")}
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_with": {"modern-elmo": __version__, **libraries},
        "settings": settings.to_dict(),
        "inputs": [file.to_dict() for file in files],
    }


class _Preparation:
    """One run, from the input files to the manifest."""

    def __init__(
        self,
        files: Sequence[InputFile],
        output: Path,
        settings: PrepareSettings,
        description: dict[str, Any],
        num_workers: int,
        meter: Meter,
    ) -> None:
        self.files, self.output, self.settings, self.description = files, output, settings, description
        self.workers, self.meter = Workers(num_workers), meter
        self.parts, self.merged = output / WORK / PARTS, output / WORK / "merged"
        content = json.dumps(describe_content(description), sort_keys=True)
        self.identity = hashlib.sha256(content.encode()).hexdigest()

    def run(self) -> None:
        with self.workers:
            records = self._write_parts()
            num_words = sum(record.num_words for record in records)
            num_sentences = sum(record.num_sentences for record in records)
            if not num_words:
                raise InputError("There is no word in the input; name files that hold text.")
            written, vocabulary, num_unknown = self._write_words(records, num_sentences)
            shards = self._write_shards(records, num_words + num_sentences)
        counts = {
            "num_words": num_words,
            "num_sentences": num_sentences,
            "num_tokens": num_words + num_sentences,
            "num_distinct_words": len(WordTable(self.output)) - 1,
            "num_unknown_words": num_unknown,
            "unknown_rate": round(num_unknown / num_words, 6),
            "vocabulary_size": len(vocabulary),
        }
        manifest = {
            **self.description,
            "counts": counts,
            "block_tokens": BLOCK_TOKENS,
            "files": {name: dataclasses.asdict(record) for name, record in sorted(written.items())},
            "shards": [dataclasses.asdict(shard) for shard in shards],
        }
        replace_file(self.output / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode())

    def _write_parts(self) -> list[PartRecord]:
        """Tokenize all text that no earlier run has; give the records of all parts in order."""
        self._remove_unfinished_parts()
        records = {}
        # A worker of a killed run may still be writing, until it finds that nobody waits for it.
        for number in (int(folder.name) for folder in self.parts.iterdir() if folder.name.isdigit()):
            if record := read_part_record(self.parts, number, self.identity):
                records[number] = record
        num_reused_bytes = sum(record.input_bytes for record in records.values())
        self.meter.begin("reading", sum(file.num_bytes for file in self.files) - num_reused_bytes)
        num_parts = 0

        def calls() -> Iterator[Call]:
            nonlocal num_parts
            for text in cut_parts([file.source for file in self.files], self.settings, self.settings.shard_bytes):
                num_parts += 1
                if text.number not in records:
                    yield write_part, (text, self.settings, self.parts, self.identity)

        for record in self.workers.run(calls(), self.meter.advance):
            records[record.number] = record
        for file in self.files:
            file.check_unchanged()
        return [records[number] for number in range(num_parts)]

    def _remove_unfinished_parts(self) -> None:
        self.parts.mkdir(exist_ok=True)
        for folder in self.parts.iterdir():
            if not folder.name.isdigit():
                shutil.rmtree(folder, ignore_errors=True)

    def _write_words(
        self, records: Sequence[PartRecord], num_sentences: int
    ) -> tuple[dict[str, FileRecord], list[str], int]:
        """Write the word table and the vocabulary; give what was written and how many words are unknown."""
        self.meter.begin("merging", sum(record.num_distinct_words for record in records))
        folders = [part_folder(self.parts, record.number) for record in records]
        merged = merge_all(folders, self.merged, self.workers, self.meter.advance)
        written = write_words(merged, self.output, num_sentences)
        vocabulary = choose_vocabulary(self.output, self.settings)
        written[VOCABULARY] = write_file(self.output / VOCABULARY, [format_lines(vocabulary)])
        written[TARGETS], num_unknown = write_targets(merged, self.output, vocabulary)
        return written, vocabulary, num_unknown

    def _write_shards(self, records: Sequence[PartRecord], num_tokens: int) -> list[ShardRecord]:
        self.meter.begin("writing", num_tokens)
        (self.output / SHARDS).mkdir()
        filled = [record.number for record in records if record.num_words]
        places = (self.parts, self.merged, len(records), self.output)
        calls: list[Call] = [(write_shard, (shard, part, *places)) for shard, part in enumerate(filled)]
        shards = sorted(self.workers.run(calls, self.meter.advance), key=lambda shard: shard.number)
        for folder in (self.output / SHARDS, self.output):
            sync(folder)
        return shards
