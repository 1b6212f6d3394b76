"""`elmo bench`: words per second, and milliseconds per sentence, of a model on this machine."""

import functools
import itertools
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.options import open_model, option
from elmo.cli.text_input import TextInput
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.inference.precision import Precision
    from elmo.inference.workers import Workers
    from elmo.model import Elmo

SENTENCES_AT_ONCE = (1, 16, 1024)
NUM_SENTENCES = 4096  # at most, from the text or generated; they are embedded again and again
GENERATED_WORDS, GENERATED_LENGTH = 30_000, 24
# Rows, inputs and outputs of a multiplication that is limited by arithmetic, and whose result stays in the cache.
PRODUCT_SIZE = 256, 1024, 2048


def bench(
    inputs: options.Rows = None,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    precision: list[str] | None = option(
        "",
        "Precision to measure: float32, bfloat16, int8 or auto; repeatable.",
        None,
        shown="all that this CPU supports",
    ),
    at_once: Annotated[
        list[int] | None,
        typer.Option(
            "--at-once",
            metavar="N",
            show_default=", ".join(map(str, SENTENCES_AT_ONCE)),
            help="Number of sentences per call; repeatable.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Duration of each measurement.")] = 3.0,
    repeats: Annotated[int, typer.Option(help="Number of measurements, of which the median is reported.")] = 3,
    threads: options.Threads = None,
    split_on_spaces: options.SplitOnSpaces = False,
    json: options.AsJson = False,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Measure words per second and the time of a single sentence.

    Without a text, sentences are generated whose word frequencies follow Zipf's law.

    \b
    Example:
      elmo bench --model small --precision int8 --precision float32 sentences.txt
    """
    if not 0 < seconds <= 3600:
        raise InputError(f"--seconds is {seconds:g}; give more than 0 and at most 3600.")
    for name, values in (("--repeats", [repeats]), ("--at-once", at_once or [])):
        for value in values:
            if value < 1:
                raise InputError(f"{name} is {value}; give 1 or more.")
    sentences = [] if inputs else list(_generate_sentences())
    reuse_large_blocks()
    found: list[dict[str, Any]] = []
    for name in _choose_precisions(precision):
        elmo = open_model(model, format=format, precision=name, threads=threads, local_files_only=local_files_only)
        sentences = sentences or _read_sentences(elmo, inputs or [], split_on_spaces)
        for number in at_once or SENTENCES_AT_ONCE:
            found.append(_measure(elmo, sentences, number, seconds=seconds, repeats=repeats))
    summary = {
        "num_sentences": len(sentences),
        "mean_words": sum(map(len, sentences)) / len(sentences),
        "num_threads": elmo.num_threads,
        "measurements": found,
    }
    print(to_json(summary) if json else "\n".join(_to_lines(summary)))


def _choose_precisions(asked: list[str] | None) -> list[str]:
    return asked or ["float32", "int8"]


def _read_sentences(model: "Elmo", inputs: list[str], split_on_spaces: bool) -> list[list[str]]:
    split = model.tokenization.tokenizer(on_spaces=split_on_spaces)
    contents = (line.content for line in TextInput(inputs, None, output=None, kind=None))
    read = (item if isinstance(item, list) else [word.text for word in split(item)] for item in contents)
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

    from elmo.inference.workers import Workers

    workers = Workers(model.num_threads)
    per_word, per_new_word = _count_operations(model)
    model.embed(sentences[:at_once])
    rates, limits, shares, call_seconds = [], [], [], []
    for _ in range(repeats):
        limits.append(_measure_product_limit(model.precision, workers, seconds=min(0.5, seconds)))
        model.clear_cache()
        num_words, calls = _embed_for(model, sentences, at_once, seconds)
        num_operations = per_word * num_words + per_new_word * model.cache_info().num_misses
        rates.append(num_words / sum(calls))
        shares.append(num_operations / sum(calls) / limits[-1])
        call_seconds += calls
    return {
        "precision": model.precision,
        "at_once": at_once,
        "words_per_second": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "milliseconds_per_sentence": 1000 * statistics.median(call_seconds) if at_once == 1 else None,
        "hit_rate": model.cache_info().hit_rate,
        "operations_per_second": statistics.median(limits),
        "share_of_limit": statistics.median(shares),
    }


def _embed_for(model: "Elmo", sentences: list[list[str]], at_once: int, seconds: float) -> tuple[int, list[float]]:
    """Embed until the time is up; return the number of words and the seconds of each call."""
    remaining = itertools.cycle(sentences)
    num_words, elapsed_seconds, calls = 0, 0.0, []
    while elapsed_seconds < seconds:
        given = list(itertools.islice(remaining, at_once))
        start = time.perf_counter()
        model.embed(given)
        calls.append(time.perf_counter() - start)
        elapsed_seconds += calls[-1]
        num_words += sum(map(len, given))
    return num_words, calls


def _to_lines(summary: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{summary['num_sentences']:,} sentences of {summary['mean_words']:.1f} words, "
        f"{summary['num_threads']} threads"
    )
    heads = ("words/s", 9), ("lowest", 8), ("highest", 8), ("ms", 8), ("cached", 6), ("of limit", 9)
    yield f"{'precision':10} {'at once':>8} " + " ".join(f"{head:>{width}}" for head, width in heads)
    for row in summary["measurements"]:
        milliseconds = row["milliseconds_per_sentence"]
        yield (
            f"{row['precision']:10} {row['at_once']:8,} {row['words_per_second']:9,.0f} {row['lowest']:8,.0f} "
            f"{row['highest']:8,.0f} {'-' if milliseconds is None else format(milliseconds, '.2f'):>8} "
            f"{row['hit_rate']:6.0%} {row['share_of_limit']:9.0%}"
        )
    yield "ms: milliseconds per sentence, one per call (median)"
    yield "cached: words found in the word cache; of limit: share of this machine's matrix-multiplication speed"


def _measure_product_limit(precision: "Precision", workers: "Workers", *, seconds: float) -> float:
    """Return the operations per second that all workers reach together, two for each multiplication."""
    task = functools.partial(_multiply, precision, seconds)
    return sum(workers.run([task for _ in range(workers.num_threads)]))


def _multiply(precision: "Precision", seconds: float) -> float:
    from time import perf_counter

    import numpy as np

    from elmo.kernels.matrix import pack_matrix

    num_rows, input_dim, output_dim = PRODUCT_SIZE
    draw = np.random.default_rng(0)
    weight, inputs = (draw.random((size, input_dim), dtype=np.float32) for size in (output_dim, num_rows))
    multiply = pack_matrix(weight, int8=precision == "int8")
    multiply(inputs)
    best, start = 0.0, perf_counter()
    while (before := perf_counter()) - start < seconds:
        multiply(inputs)
        best = max(best, 2 * num_rows * input_dim * output_dim / (perf_counter() - before))
    return best


def _count_operations(model: "Elmo") -> tuple[int, int]:
    """Return the operations for a word in its sentence, and those for a word seen the first time.

    Multiplications with weights alone are counted, and of the characters' network those after its convolutions.
    """
    from elmo.checkpoint.weights import shapes_of

    sides, tokens = ("left_to_right.", "right_to_left."), ("tokens.characters.highways.", "tokens.projection.")
    shapes = {name: shape for name, shape in shapes_of(model.checkpoint().weights).items() if len(shape) == 2}
    in_sentence, once = (
        2 * sum(math.prod(shape) for name, shape in shapes.items() if name.startswith(prefixes))
        for prefixes in (sides, tokens)
    )
    return in_sentence, once
