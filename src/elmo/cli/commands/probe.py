"""`elmo probe`: how much each layer of a model knows about labelled data."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import ModelOptions, read_pairs
from elmo.extras import require
from elmo.files.rows import to_json

if TYPE_CHECKING:
    from elmo.tasks.probes import ProbeResult, Score

_MOST_COLUMNS = 4


def probe(
    kind: Literal["tagging", "features", "classification", "senses", "similarity"] = argument(
        "KIND",
        "tagging: the tag of each word. features: each feature of CoNLL-U's FEATS. classification: the "
        "label of each text. senses: WordNet keys, by the nearest neighbour. similarity: scores of sentence "
        "pairs.",
    ),
    test: str = option("FILE", "Examples to measure on."),
    train: str | None = option("FILE", "Examples to learn from; not for similarity.", None),
    column: list[str] | None = option(
        "--column ROLE=NAME",
        "Column that has a role, as in tag=xpos, text=review or first=premise; repeatable.",
        None,
        shown=False,
    ),
    file_format: str | None = option("--format FORMAT", "Format of the files if it cannot be detected.", None),
    sense_index: str | None = option(
        "FILE", "For senses: WordNet's index.sense, for lemmas not in --train.", None
    ),
    seeds: int = option("", "Number of random seeds, counted from 0.", 3, min=1),
    max_train_words: int | None = option(
        "",
        "Maximum number of words to learn from, sampled for each seed; senses takes the first ones.",
        None,
        shown="100,000; 200,000 for classification; 1,000,000 for senses",
        min=1,
    ),
    max_test_words: int | None = option(
        "",
        "Maximum number of words to measure on, for tagging, features and classification.",
        None,
        shown="50,000",
        min=1,
    ),
    json: options.AsJson = False,
    *,
    model: ModelOptions,
) -> None:
    """Measure what each layer knows about labelled data.

    The table also has the average of the layers and, of linear classifiers, their learned mix; for models with a
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

    columns = read_pairs(column, "--column")
    result = run_probe(
        model.open(), kind, train=train, test=test, format=file_format, columns=columns, sense_index=sense_index,
        seeds=range(seeds), max_train_words=max_train_words, max_test_words=max_test_words, progress=True,
    )  # fmt: skip
    print(to_json(result.to_dict()) if json else "\n".join(_describe_probe(result)))


def _describe_probe(result: "ProbeResult") -> Iterator[str]:
    """Yield the lines of the table in Markdown, with the amount of data and the meaning of its numbers."""
    yield _describe_counts(result.counts)
    yield from result.notes
    yield ""
    names = list(result.rows[0].scores)
    if len(names) > _MOST_COLUMNS:  # one row per question, because a page is not that wide
        rows = [(name, [row.scores[name] for row in result.rows]) for name in names]
        yield from _tabulate_probe([result.metric, *(row.name for row in result.rows)], rows)
    else:
        heads = names if len(names) > 1 else [result.metric]
        yield from _tabulate_probe(["", *heads], [(row.name, list(row.scores.values())) for row in result.rows])
    yield ""
    spreads = {each.spread_of for row in result.rows for each in row.scores.values() if each.spread is not None}
    if "seeds" in spreads:
        yield f"± is the standard deviation over {result.counts['seeds']} seeds."
    if "resampling" in spreads:
        yield "±* is the standard deviation over resampled test examples; these scores do not depend on a seed."
    if result.mix_weights is not None:
        shares = ", ".join(f"layer {number} {share:.2f}" for number, share in enumerate(result.mix_weights))
        yield f"The learned mix: {shares}."


def _tabulate_probe(heads: Sequence[str], rows: "Sequence[tuple[str, list[Score]]]") -> Iterator[str]:
    cells = [list(heads), *([name, *map(_format_score, scores)] for name, scores in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        yield f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def _format_score(score: "Score") -> str:
    if score.spread is None:
        return f"{score.mean:.2f}"
    return f"{score.mean:.2f} ± {score.spread:.2f}{'*' if score.spread_of == 'resampling' else ''}"


def _describe_counts(counts: dict[str, int]) -> str:
    parts = []
    for name, count in counts.items():
        if count and not name.endswith("_in_data"):
            whole = counts.get(f"{name}_in_data", count)
            parts.append(f"{name.replace('_', ' ')} {count:,}" + (f" of {whole:,}" if whole != count else ""))
    return f"{'; '.join(parts)}."
