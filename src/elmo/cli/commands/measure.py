"""`elmo bench` measures the speed of a model; `elmo probe` measures what its layers predict."""

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import FilesOptions, ModelOptions, read_pairs
from elmo.cli.terminal import align_rows, markdown_table
from elmo.extras import require
from elmo.files.rows import to_json
from elmo.heap import reuse_large_blocks
from elmo.language import translate

if TYPE_CHECKING:
    from elmo.model import Elmo
    from elmo.tasks.probes import ProbeResult, Score

SENTENCES_AT_ONCE = (1, 16, 1024)
NUM_SENTENCES, NUM_DISTINCT_WORDS, MEAN_WORDS = 4096, 30_000, 24


def bench(
    files: FilesOptions,
    model: options.ModelName = None,
    seconds: float = option("--seconds X", "Duration of each measurement.", 3.0, min=0.001),
    threads: options.Threads = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure throughput and latency in float32 and int8.

    The sentences are generated; their word frequencies follow Zipf's law.

    \b
    Example:
      elmo bench --model en-small --threads 1
    """
    sentences = list(_generate_sentences())
    reuse_large_blocks()
    measurements: list[dict[str, Any]] = []
    for precision in ("float32", "int8"):
        elmo = files.open_named(model, precision=precision, num_threads=threads)
        measurements += [_measure(elmo, sentences, at_once, seconds) for at_once in SENTENCES_AT_ONCE]
    if as_json:
        print(to_json({"num_threads": elmo.num_threads, "measurements": measurements}))
        return
    titles = ("precision", "at once", "words/s", "ms", "cached")
    formats = ("{precision}", "{at_once:,}", "{words_per_second:,.0f}", "{milliseconds:.2f}", "{hit_rate:.0%}")
    cells = [[form.format(**measured) for form in formats] for measured in measurements]
    print("\n".join(align_rows([list(map(translate, titles)), *cells])))
    print(translate("ms: milliseconds per call (median); cached: words found in the word cache"))


def _generate_sentences() -> Iterator[list[str]]:
    import numpy as np

    generator = np.random.default_rng(0)
    shares = 1 / np.arange(1, NUM_DISTINCT_WORDS + 1)
    for _ in range(NUM_SENTENCES):
        length = max(1, generator.poisson(MEAN_WORDS))
        ranks = generator.choice(NUM_DISTINCT_WORDS, length, p=shares / shares.sum())
        # Rare words are longer: the rank, spelled with letters as digits.
        yield [np.base_repr(7 * int(rank) ** 2 + 11, 26).lower() for rank in ranks]


def _measure(model: "Elmo", sentences: list[list[str]], at_once: int, seconds: float) -> dict[str, Any]:
    """Embed until the time is up, with an empty word cache at the beginning."""
    import statistics  # imported here to keep help pages fast

    model.embed(sentences[:at_once])
    model.clear_cache()
    remaining = itertools.cycle(sentences)
    num_words, call_seconds = 0, [0.0]
    while sum(call_seconds) < seconds:
        batch = list(itertools.islice(remaining, at_once))
        start = time.perf_counter()
        model.embed(batch)
        call_seconds.append(time.perf_counter() - start)
        num_words += sum(map(len, batch))
    return {
        "precision": model.precision,
        "at_once": at_once,
        "words_per_second": num_words / sum(call_seconds),
        "milliseconds": 1000 * statistics.median(call_seconds[1:]),
        "hit_rate": model.cache_info().hit_rate,
    }


_MOST_COLUMNS = 4


def probe(
    kind: Literal["tagging", "features", "classification", "senses", "similarity"] = argument(
        "KIND",
        "tagging: the tag of each word. features: each feature of CoNLL-U's FEATS. classification: the label of each "
        "text. senses: WordNet keys, by the nearest neighbor. similarity: scores of sentence pairs.",
    ),
    test: str = option("FILE", "Test examples."),
    train: str | None = option("FILE", "Training examples; not for similarity.", None),
    column: list[str] | None = option(
        "ROLE=NAME", "Column of a role, as in tag=xpos or text=review; repeatable.", None, shown=False
    ),
    file_format: str | None = option(
        "--format FORMAT", "Format of the files if the extension does not determine it.", None
    ),
    sense_index: str | None = option("FILE", "For senses: WordNet's index.sense.", None),
    seeds: int = option("", "Number of random seeds, counted from 0.", 3, min=1),
    max_train_words: int | None = option("", "Maximum number of training words.", None, shown="by KIND", min=1),
    as_json: options.AsJson = False,
    *,
    model: ModelOptions,
) -> None:
    """Measure how well labels can be predicted from each layer.

    The table also has the average of the layers and, for linear classifiers, their learned mix; for models with a
    context layer, meaning (senses) and the vectors of elmo encode (similarity).

    \b
    Examples:
      elmo probe tagging --train train.conllu --test test.conllu --column tag=xpos
      elmo probe features --train train.conllu --test test.conllu
      elmo probe senses --train semcor.data.xml --test all.data.xml --sense-index index.sense
      elmo probe similarity --test sts-test.csv
    """
    require("torch", "tasks", "elmo probe")
    from elmo.tasks.probes import probe as run_probe

    columns = read_pairs(column, "--column", "ROLE=NAME")
    result = run_probe(
        model.open(), kind, train=train, test=test, format=file_format, columns=columns, sense_index=sense_index,
        seeds=range(seeds), max_train_words=max_train_words, show_progress_bar=True,
    )  # fmt: skip
    print(to_json(result.to_dict()) if as_json else "\n".join(_describe_probe(result)))


def _describe_probe(result: "ProbeResult") -> Iterator[str]:
    yield _describe_counts(result.counts)
    yield from result.notes
    yield ""
    names = list(result.rows[0].scores)
    if len(names) > _MOST_COLUMNS:  # one row per score, because the columns would not fit
        table = [[name, *(_format_score(row.scores[name]) for row in result.rows)] for name in names]
        yield from markdown_table([[result.metric, *(row.name for row in result.rows)], *table])
    else:
        table = [[row.name, *map(_format_score, row.scores.values())] for row in result.rows]
        yield from markdown_table([["", *(names if len(names) > 1 else [result.metric])], *table])
    yield ""
    spreads = {score.spread_of for row in result.rows for score in row.scores.values() if score.spread is not None}
    if "seeds" in spreads:
        yield f"± is the standard deviation over {result.counts['seeds']} seeds."
    if "resampling" in spreads:
        yield "±* is the standard deviation over resampled test examples; these scores do not depend on a seed."
    if result.mix_weights is not None:
        shares = ", ".join(f"layer {number}: {share:.2f}" for number, share in enumerate(result.mix_weights))
        yield f"Learned weights: {shares}."


def _format_score(score: "Score") -> str:
    if score.spread is None:
        return f"{score.mean:.2f}"
    return f"{score.mean:.2f} ± {score.spread:.2f}{'*' if score.spread_of == 'resampling' else ''}"


def _describe_counts(counts: dict[str, int]) -> str:
    parts = []
    for name, count in counts.items():
        if count and not name.endswith("_in_data"):
            total = counts.get(f"{name}_in_data", count)
            parts.append(f"{count:,} " + (f"of {total:,} " if total != count else "") + name.replace("_", " "))
    return f"{'; '.join(parts)}."
