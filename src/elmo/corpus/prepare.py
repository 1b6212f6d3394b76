"""Prepare text files for training: write a folder of shards, a word table and a vocabulary, see prepared.py.

Finished parts are kept, so the same call resumes an interrupted one; the manifest is written last. The result does
not depend on the number of workers. Nothing is trained here.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from elmo.config import Script
from elmo.corpus import parts
from elmo.corpus.parts import PartRecord
from elmo.corpus.prepared import CORPUS, SHARDS, PreparedCorpus
from elmo.corpus.rows import Part
from elmo.corpus.settings import SHARD_BYTES, PrepareSettings, Split, read_vocabulary
from elmo.corpus.text import cut_parts
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.files.sources import InputFile, check_outside, open_inputs
from elmo.files.work_folder import identify, read_records, run_parts
from elmo.files.workers import Workers, count_cores
from elmo.progress import Advance

_MAX_DEFAULT_WORKERS = 8  # all workers together then use less than 2 GiB


def prepare(
    files: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    column: str = "text",
    split: Split = "sentences",
    language: str | None = None,
    split_on_spaces: bool = False,
    characters: Sequence[Script] = (),
    vocabulary_size: int | None = None,
    min_count: int | None = None,
    vocabulary: str | Path | None = None,
    shard_bytes: int = SHARD_BYTES,
    num_workers: int | None = None,
    force: bool = False,
    show_progress_bar: bool = False,
) -> PreparedCorpus:
    """Prepare text for training and return the opened corpus; `elmo prepare` is this function.

    `files` are text files or tables, compressed or not, patterns such as `texts/*.txt.xz`, or "-" for standard
    input; see PrepareSettings for the other options. The same call resumes an interrupted one. If the folder already
    holds this corpus, it is only opened; another corpus is an error unless `force` is true. Raises InputError or
    ConfigError for mistakes that the caller can fix.
    """
    settings = PrepareSettings(
        field=column,
        split=split,
        language=language,
        split_on_spaces=split_on_spaces,
        characters=tuple(characters),
        vocabulary_size=vocabulary_size,
        min_count=min_count,
        vocabulary=None if vocabulary is None else Path(vocabulary),
        shard_bytes=shard_bytes,
    )
    output = Path(output)
    num_workers = min(count_cores(), _MAX_DEFAULT_WORKERS) if num_workers is None else num_workers
    if num_workers < 1:
        raise InputError(f"num_workers is {num_workers}; at least 1 is needed.")
    if settings.vocabulary is not None:
        read_vocabulary(settings.vocabulary)
        check_outside([settings.vocabulary], output)
    sources = CORPUS.find_inputs(files, output)
    with CORPUS.locked(output):
        inputs = open_inputs(sources)
        description = CORPUS.describe(inputs, ("tokenizers", "sentencex"), settings=settings.to_dict())
        if CORPUS.begin(output, description, force=force):
            work, identity = output / CORPUS.work, identify(description)
            records = _write_parts(inputs, work, settings, identity, num_workers, show_progress_bar)
            _write_corpus(output, settings, description, records)
        return PreparedCorpus.open(output)


def _write_parts(
    inputs: Sequence[InputFile],
    work: Path,
    settings: PrepareSettings,
    identity: str,
    num_workers: int,
    show_progress_bar: bool,
) -> list[PartRecord]:
    """Tokenize all text that no earlier run has tokenized; return the records of all parts in order."""
    all_parts = cut_parts([file.source for file in inputs], settings, settings.shard_bytes)
    finished = read_records(work.glob(f"part-*/{parts.RECORD}"), PartRecord, identity)

    def compute(missing: Iterator[Part], advance: Advance) -> Iterator[PartRecord]:
        calls = ((parts.write_part, (part, settings, work, identity)) for part in missing)
        with closing(Workers(num_workers).run(calls)) as records:  # stops the workers on an error
            for record in records:
                advance(record.input_bytes, record.num_words)
                yield record

    return run_parts(all_parts, finished, compute, inputs, work, show_progress_bar=show_progress_bar)


def _write_corpus(
    output: Path, settings: PrepareSettings, description: dict[str, Any], records: Sequence[PartRecord]
) -> None:
    """Write the word table, the vocabulary, the shards and the manifest."""
    num_words = sum(record.num_words for record in records)
    num_sentences = sum(record.num_sentences for record in records)
    if not num_words:
        raise InputError("There are no words in the input; name files that contain text.")

    CORPUS.clear(output)  # files of an unfinished run
    folders = [parts.part_folder(output / CORPUS.work, record.number) for record in records if record.num_words]
    word_counts = parts.count_words(folders)
    vocabulary = parts.choose_vocabulary(word_counts, settings)
    files, num_unknown = parts.write_table(word_counts, num_sentences, vocabulary, output)
    (output / SHARDS).mkdir()
    rows = {word: row for row, word in enumerate(word_counts, start=1)}
    shards = [parts.write_shard(number, part, rows, output) for number, part in enumerate(folders)]
    for folder in (output / SHARDS, output):
        sync(folder)
    counts = {
        "num_words": num_words,
        "num_sentences": num_sentences,
        "num_tokens": num_words + num_sentences,
        "num_distinct_words": len(word_counts),
        "num_unknown_words": num_unknown,
        "unknown_rate": round(num_unknown / num_words, 6),
        "vocabulary_size": len(vocabulary),
    }
    manifest = {
        **description,
        "counts": counts,
        "block_tokens": parts.BLOCK_TOKENS,
        "files": dict(sorted(files.items())),
        "shards": shards,
    }
    CORPUS.finish(output, manifest)
