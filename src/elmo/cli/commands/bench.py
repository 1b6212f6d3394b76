"""`elmo bench`: words per second, and milliseconds per sentence, of a model on this machine."""

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from elmo.cli import options
from elmo.cli.command import option
from elmo.cli.options import FilesOptions
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.model import Elmo

SENTENCES_AT_ONCE = (1, 16, 1024)
NUM_SENTENCES = 4096  # at most, from the text or generated; they are embedded again and again
GENERATED_WORDS, GENERATED_LENGTH = 30_000, 24


def bench(
    files: FilesOptions,
    inputs: options.RowFiles = None,
    model: options.ModelName = None,
    precision: list[str] | None = option(
        "--precision PRECISION",
        "Precision to measure: float32, int8 or auto; repeatable.",
        None,
        shown="float32 and int8",
    ),
    at_once: list[int] | None = option(
        "--at-once N",
        "Number of sentences per call; repeatable.",
        None,
        shown=", ".join(map(str, SENTENCES_AT_ONCE)),
        min=1,
    ),
    seconds: float = option("--seconds X", "Duration of each measurement.", 3.0),
    repeats: int = option("--repeats N", "Number of measurements, of which the median is reported.", 3, min=1),
    threads: options.Threads = None,
    split_on_spaces: options.SplitOnSpaces = False,
    json: options.AsJson = False,
) -> None:
    """Measure words per second and the time of a single sentence.

    Without a text, sentences are generated whose word frequencies follow Zipf's law.

    \b
    Example:
      elmo bench sentences.txt --precision int8 --at-once 1
    """
    if not 0 < seconds <= 3600:
        raise InputError(f"--seconds is {seconds:g}; give more than 0 and at most 3600.")
    sentences = [] if inputs else list(_generate_sentences())
    reuse_large_blocks()
    measurements: list[dict[str, Any]] = []
    for name in precision or ["float32", "int8"]:
        elmo = files.open(model, precision=name, num_threads=threads)
        sentences = sentences or _read_sentences(elmo, inputs or [], split_on_spaces)
        for number in at_once or SENTENCES_AT_ONCE:
            measurements.append(_measure(elmo, sentences, number, seconds=seconds, repeats=repeats))
    summary = {
        "num_sentences": len(sentences),
        "mean_words": sum(map(len, sentences)) / len(sentences),
        "num_threads": elmo.num_threads,
        "measurements": measurements,
    }
    print(to_json(summary) if json else "\n".join(_to_lines(summary)))


def _read_sentences(model: "Elmo", inputs: list[str], split_on_spaces: bool) -> list[list[str]]:
    from elmo.cli.text_input import TextInput

    contents = (row.content for row in TextInput(inputs))
    read = (
        content
        if isinstance(content, list)
        else [word.text for word in model.tokenize(content, split_on_spaces=split_on_spaces)]
        for content in contents
    )
    sentences = list(itertools.islice((words for words in read if words), NUM_SENTENCES))
    if not sentences:
        raise InputError("The text has no words to measure with; check the file.")
    return sentences


def _generate_sentences() -> Iterator[list[str]]:
    import numpy as np

    generator = np.random.default_rng(0)
    shares = 1 / np.arange(1, GENERATED_WORDS + 1)
    for _ in range(NUM_SENTENCES):
        length = max(1, generator.poisson(GENERATED_LENGTH))
        ranks = generator.choice(GENERATED_WORDS, length, p=shares / shares.sum())
        # Rare words are longer: the rank, spelled with letters as digits.
        yield [np.base_repr(7 * int(rank) ** 2 + 11, 26).lower() for rank in ranks]


def _measure(
    model: "Elmo", sentences: list[list[str]], at_once: int, *, seconds: float, repeats: int
) -> dict[str, Any]:
    import statistics  # here, because help pages must not wait for it

    model.embed(sentences[:at_once])
    rates, call_seconds = [], []
    for _ in range(repeats):
        model.clear_cache()
        num_words, calls = _embed_for(model, sentences, at_once, seconds)
        rates.append(num_words / sum(calls))
        call_seconds += calls
    return {
        "precision": model.precision,
        "at_once": at_once,
        "words_per_second": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "milliseconds_per_sentence": 1000 * statistics.median(call_seconds) if at_once == 1 else None,
        "hit_rate": model.cache_info().hit_rate,
    }


def _embed_for(model: "Elmo", sentences: list[list[str]], at_once: int, seconds: float) -> tuple[int, list[float]]:
    """Embed until the time is up; return the number of words and the seconds of each call."""
    remaining = itertools.cycle(sentences)
    num_words, elapsed_seconds, calls = 0, 0.0, []
    while elapsed_seconds < seconds:
        batch = list(itertools.islice(remaining, at_once))
        start = time.perf_counter()
        model.embed(batch)
        calls.append(time.perf_counter() - start)
        elapsed_seconds += calls[-1]
        num_words += sum(map(len, batch))
    return num_words, calls


def _to_lines(summary: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{summary['num_sentences']:,} sentences of {summary['mean_words']:.1f} words, "
        f"{summary['num_threads']} threads"
    )
    heads = ("words/s", 9), ("lowest", 8), ("highest", 8), ("ms", 8), ("cached", 6)
    yield f"{'precision':10} {'at once':>8} " + " ".join(f"{head:>{width}}" for head, width in heads)
    for row in summary["measurements"]:
        milliseconds = row["milliseconds_per_sentence"]
        yield (
            f"{row['precision']:10} {row['at_once']:8,} {row['words_per_second']:9,.0f} {row['lowest']:8,.0f} "
            f"{row['highest']:8,.0f} {'-' if milliseconds is None else format(milliseconds, '.2f'):>8} "
            f"{row['hit_rate']:6.0%}"
        )
    yield "ms: milliseconds per sentence, one per call (median); cached: words found in the word cache"
