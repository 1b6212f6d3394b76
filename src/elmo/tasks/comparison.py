"""Compare a task with and without ELMo, on the same seeds: runs -> results.json -> a table.

Each run has its own folder and is done when its scores are written, so an interrupted comparison resumes where it
stopped.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from elmo.checkpoint.location import read_json
from elmo.errors import ConfigError, InputError
from elmo.files.durable import holding, is_vacant, replace_file
from elmo.tasks.fit import TaskReport
from elmo.tasks.readers.records import Data, store_records
from elmo.tasks.settings import TaskOptions, TaskSettings, make_settings
from elmo.tasks.shared_inputs import SharedInputs
from elmo.tasks.task import SCORES_FILE
from elmo.tasks.training import (
    Settings,
    describe_inputs,
    finish,
    is_done,
    is_started,
    read_record,
    resolve_inputs,
    train_task,
)

BASELINE = "baseline"
VARIANTS: dict[str, dict[str, Any]] = {
    BASELINE: {"elmo.where": "none", "elmo.tune": False},
    "top": {"elmo.layers": "top", "elmo.tune": False},
    "learned": {"elmo.layers": "learned", "elmo.tune": False},
    "concat": {"elmo.layers": "concat", "elmo.tune": False},
    "output": {"elmo.where": "output", "elmo.tune": False},
    "both": {"elmo.where": "both", "elmo.tune": False},
    # Classification: a linear classifier on TF-IDF alone, and on TF-IDF and pooled vectors.
    "tfidf": {"elmo.where": "none", "elmo.tune": False, "network.kind": "pooled"},
    "pooled": {"elmo.tune": False, "network.kind": "pooled"},
    "tuned": {"elmo.layers": "learned", "elmo.tune": True},
}
REQUEST_FILE, RESULTS_FILE, RUNS = "compare.json", "results.json", "runs"


@dataclass(frozen=True)
class ComparisonSettings:
    """The runs of a comparison: each variant with each seed on each fraction of the data."""

    variants: tuple[str, ...] = ()  # empty: baseline and learned; for classification also tfidf
    seeds: tuple[int, ...] = (0, 1, 2)
    fractions: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if unknown := [name for name in self.variants if name not in VARIANTS]:
            raise ConfigError(f"There is no variant {unknown[0]!r}; known are {', '.join(VARIANTS)}.")
        if not self.seeds or not self.fractions:
            raise ConfigError("A comparison needs at least one seed and one fraction.")
        if wrong := [fraction for fraction in self.fractions if not 0 < fraction <= 1]:
            raise ConfigError(f"fractions has {wrong[0]}; each must be above 0 and at most 1.")

    def choose_variants(self, family: str) -> tuple[str, ...]:
        """Return the variants to train: those requested, or the defaults for a family."""
        return self.variants or (BASELINE, "learned", *(("tfidf",) if family == "classification" else ()))


@dataclass(frozen=True)
class Row:
    """The scores of all seeds of one variant on one fraction of the data."""

    variant: str
    fraction: float
    metric: str
    mean: float
    spread: float | None  # standard deviation; None for one seed
    num_seeds: int
    num_train: int
    error_reduction: float | None  # percent of the baseline's error; None for the baseline, or without one
    mixes: list[dict[str, Any]]  # s_j and γ, means over the seeds


def compare(
    train: Data,
    *,
    kind: str,
    output: str | Path,
    comparison: ComparisonSettings | None = None,
    dev: Data | None = None,
    test: Data | None = None,
    model: str | Path | None = None,
    keep_runs: bool = False,
    settings: Settings | None = None,
    options: TaskOptions | None = None,
    show_progress_bar: bool = False,
) -> list[Row]:
    """Train variants of a task on the same seeds and fractions of the data; return a row per variant and fraction.

    The other arguments are those of `train`. The folder `output` keeps the scores of every run and, with
    `keep_runs`, the trained tasks; the same call resumes an interrupted comparison.
    """
    inputs, chosen = resolve_inputs(train, kind, dev, test, model, settings, options)
    comparison = comparison or ComparisonSettings()
    with TaskReport(shown=show_progress_bar) as report:
        return run_comparison(SharedInputs(inputs, report), chosen, Path(output), comparison, keep=keep_runs)


def run_comparison(
    shared: SharedInputs,
    settings: TaskSettings,
    folder: Path,
    comparison: ComparisonSettings,
    *,
    keep: bool = False,
) -> list[Row]:
    """Train every run that is not done yet and write results.json."""
    if not (folder / REQUEST_FILE).is_file() and not is_vacant(folder):
        raise InputError(f"{folder} is not empty and holds no comparison; choose a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    variants = comparison.choose_variants(shared.inputs.family)
    planned = list(product(sorted(comparison.fractions), variants, comparison.seeds))
    results = []
    with holding(folder, f"Another process is comparing in {folder}; wait for it, or stop it first."):
        _check_same(shared, settings, folder)
        _check_same_bilm(shared, folder, variants)
        for number, (fraction, variant, seed) in enumerate(planned, start=1):
            name = f"{variant}-{fraction:g}-{seed}"
            run = folder / RUNS / name
            if is_done(run):
                result = finish(run)
            else:
                changes = {**VARIANTS[variant], "fit.seed": seed, "fit.fraction": fraction}
                changed = make_settings(shared.inputs.family, {**settings.to_dict(), **changes})
                shared.report.run_name = f"{name} ({number} of {len(planned)}), "
                result = train_task(shared, changed, run, keep=keep, is_new=not is_started(run))
            results.append({"variant": variant, "fraction": fraction, "seed": seed, **result.to_dict()})
        rows = summarize(results)
        content = {"rows": [asdict(row) for row in rows], "runs": results}
        replace_file(folder / RESULTS_FILE, json.dumps(content, indent=1).encode())
    return rows


def summarize(results: Sequence[dict[str, Any]]) -> list[Row]:
    """Average over the seeds: test scores, or dev scores if there was no test file."""
    groups: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["fraction"], result["variant"]), []).append(result)
    means = {key: statistics.mean(map(_score, group)) for key, group in groups.items()}
    rows = []
    for (fraction, variant), group in groups.items():
        baseline = means.get((fraction, BASELINE)) if variant != BASELINE else None
        mean = means[fraction, variant]
        spread = statistics.stdev(map(_score, group)) if len(group) > 1 else None
        reduction = None if baseline is None or baseline >= 100 else 100 * (mean - baseline) / (100 - baseline)
        mixes = _mean_mixes([result["mixes"] for result in group])
        metric, num_train = group[0]["metric"], group[0]["num_train"]
        rows.append(Row(variant, fraction, metric, mean, spread, len(group), num_train, reduction, mixes))
    return rows


def format_table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown."""
    lines = ["| variant | data | score | spread | error reduction | s_j | γ |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = (
            row.variant,
            f"{row.fraction:.0%} ({row.num_train:,})",
            f"{row.metric} {row.mean:.2f}",
            "" if row.spread is None else f"± {row.spread:.2f}",
            "" if row.error_reduction is None else f"{row.error_reduction:.1f}%",
            "; ".join(" ".join(f"{weight:.2f}" for weight in mix["weights"]) for mix in row.mixes),
            "; ".join(f"{mix['gamma']:.2f}" for mix in row.mixes),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _score(result: dict[str, Any]) -> float:
    return float((result["test"] or result["dev"])[result["metric"]])


def _mean_mixes(runs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {
            "weights": [statistics.mean(weights) for weights in zip(*(mix["weights"] for mix in mixes), strict=True)],
            "gamma": statistics.mean(mix["gamma"] for mix in mixes),
        }
        for mixes in zip(*filter(None, runs), strict=True)  # a pooled classifier has no mix
    ]


def _check_same(shared: SharedInputs, settings: TaskSettings, folder: Path) -> None:
    """Raise InputError if the folder has runs on other data or settings, which must not share a table."""
    shared.inputs = store_records(shared.inputs, folder)
    current, path = describe_inputs(shared.inputs, settings), folder / REQUEST_FILE
    if not path.exists():
        replace_file(path, json.dumps(current, indent=1).encode())
        return
    inputs, known_settings, data = read_record(path, "choose a new folder")
    previous = {"inputs": inputs.to_dict(), "settings": known_settings.to_dict(), "data": data}
    if different := [name for name in current if previous[name] != current[name]]:
        raise InputError(
            f"{folder} holds a comparison with other {' and '.join(different)}; choose a new folder, or the same "
            "options as before (variants, seeds and fractions may be added)."
        )


def _check_same_bilm(shared: SharedInputs, folder: Path, variants: Sequence[str]) -> None:
    """Raise InputError if finished runs used a different biLM; the same name may mean another one now."""
    known = {read_json(path).get("bilm_hash") for path in (folder / RUNS).glob(f"*/{SCORES_FILE}")} - {None}
    if known and set(variants) != {BASELINE} and known != {shared.frozen_fingerprint}:
        raise InputError(
            f"{folder} holds runs with a different biLM than {shared.inputs.model or 'the default model'} is now; "
            "choose a new folder."
        )
