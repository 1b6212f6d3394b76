"""The same task with and without ELMo, on the same seeds: runs -> results.json -> a table.

Each run has a folder of its own and is done when its scores are written, so a comparison that was killed goes on
where it stopped.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo.checkpoint.fingerprint import fingerprint as content_hash
from elmo.errors import ConfigError, InputError
from elmo.files.durable import holding, is_vacant, replace_file
from elmo.tasks.fit import Watcher
from elmo.tasks.folder import read_json
from elmo.tasks.run_folder import RUN_FILE, SCORES_FILE, TRAINING, absolute, finish, hash_inputs, is_done, start
from elmo.tasks.settings import TaskSettings, make_settings
from elmo.tasks.training import train_task
from elmo.tasks.workbench import Workbench

BASELINE = "baseline"
VARIANTS: dict[str, dict[str, Any]] = {
    BASELINE: {"elmo.where": "none", "elmo.tune": False},
    "top": {"elmo.layers": "top", "elmo.tune": False},
    "learned": {"elmo.layers": "learned", "elmo.tune": False},
    "concat": {"elmo.layers": "concat", "elmo.tune": False},
    "output": {"elmo.where": "output", "elmo.tune": False},
    "both": {"elmo.where": "both", "elmo.tune": False},
    "tuned": {"elmo.layers": "learned", "elmo.tune": True},
}
DEFAULT_VARIANTS = (BASELINE, "top", "learned", "tuned")
REQUEST_FILE, RESULTS_FILE, RUNS = "compare.json", "results.json", "runs"


@dataclass(frozen=True)
class Request:
    """Which runs a comparison is made of."""

    variants: tuple[str, ...] = DEFAULT_VARIANTS
    seeds: tuple[int, ...] = (0, 1, 2)
    fractions: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if unknown := [name for name in self.variants if name not in VARIANTS]:
            raise ConfigError(f"There is no variant {unknown[0]!r}; known are {', '.join(VARIANTS)}.")
        if not self.variants or not self.seeds or not self.fractions:
            raise ConfigError("A comparison needs at least one variant, one seed and one fraction.")


@dataclass(frozen=True)
class Row:
    """What the seeds of one variant on one fraction of the data gave."""

    variant: str
    fraction: float
    metric: str
    mean: float
    spread: float | None  # standard deviation; None for one seed
    num_seeds: int
    num_train: int
    error_reduction: float | None  # percent of the baseline's error; None for the baseline, or without one
    mixes: list[dict[str, Any]]  # s_j and γ, means over the seeds


def run_comparison(
    bench: Workbench,
    settings: TaskSettings,
    folder: Path,
    request: Request,
    *,
    keep: bool = False,
    on_run: Callable[[str, int, int], Watcher] = lambda name, number, total: Watcher(),
) -> list[Row]:
    """Do every run that is not done yet and write results.json; `on_run` is told which one begins.

    With `keep` each run's folder becomes a task to load; without it, only its scores stay.
    """
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder, f"Another process is comparing in {folder}; wait for it, or stop it first."):
        return _run_comparison(bench, settings, folder, request, keep=keep, on_run=on_run)


def _run_comparison(
    bench: Workbench,
    settings: TaskSettings,
    folder: Path,
    request: Request,
    *,
    keep: bool,
    on_run: Callable[[str, int, int], Watcher],
) -> list[Row]:
    _check_same(bench, settings, folder)
    _check_same_bilm(bench, folder, request)
    wanted = [
        (variant, fraction, seed)
        for fraction in sorted(request.fractions)
        for variant in request.variants
        for seed in request.seeds
    ]
    results = []
    for number, (variant, fraction, seed) in enumerate(wanted, start=1):
        name = f"{variant}-{fraction:g}-{seed}"
        run = folder / RUNS / name
        if is_done(run):
            finish(run)  # which a process killed right after its end left undone
        else:
            changes = {**VARIANTS[variant], "fit.seed": seed, "fit.fraction": fraction}
            changed = make_settings(bench.inputs.family, {**_flat(settings.to_dict()), **changes})
            if not (run / TRAINING / RUN_FILE).is_file():
                start(bench.inputs, changed, run)
            train_task(bench, changed, run, watcher=on_run(name, number, len(wanted)), keep=keep)
        results.append({"variant": variant, "fraction": fraction, "seed": seed, **read_json(run / SCORES_FILE)})
    rows = summarize(results)
    content = {"rows": [asdict(row) for row in rows], "runs": results}
    replace_file(folder / RESULTS_FILE, json.dumps(content, indent=1).encode())
    return rows


def summarize(results: Sequence[dict[str, Any]]) -> list[Row]:
    """Gather the seeds: test scores, or dev scores where there was no test file."""
    groups: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["fraction"], result["variant"]), []).append(result)
    means = {key: statistics.mean(map(_score, group)) for key, group in groups.items()}
    rows = []
    for (fraction, variant), group in groups.items():
        baseline = means.get((fraction, BASELINE)) if variant != BASELINE else None
        mean = means[fraction, variant]
        row = Row(
                variant,
                fraction,
                group[0]["metric"],
                mean,
                statistics.stdev(map(_score, group)) if len(group) > 1 else None,
                len(group),
                group[0]["num_train"],
                None if baseline is None or baseline >= 100 else 100 * (mean - baseline) / (100 - baseline),
                _mean_mixes([result["mixes"] for result in group]),
        )  # fmt: skip
        rows.append(row)
    return rows


def format_table(rows: Sequence[Row]) -> str:
    """Give the table in Markdown."""
    lines = [
        "| variant | data | score | spread | error reduction | s_j | γ |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        spread = "" if row.spread is None else f"± {row.spread:.2f}"
        reduction = "" if row.error_reduction is None else f"{row.error_reduction:.1f}%"
        shares = "; ".join(" ".join(f"{share:.2f}" for share in mix["weights"]) for mix in row.mixes)
        gammas = "; ".join(f"{mix['gamma']:.2f}" for mix in row.mixes)
        data = f"{row.fraction:.0%} ({row.num_train:,})"
        lines.append(
            f"| {row.variant} | {data} | {row.metric} {row.mean:.2f} | {spread} | {reduction} | {shares} | "
            f"{gammas} |"
        )
    return "\n".join(lines)


def _score(result: dict[str, Any]) -> float:
    return float((result["test"] or result["dev"])[result["metric"]])


def _mean_mixes(runs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {
            "weights": [
                statistics.mean(shares) for shares in zip(*(mix["weights"] for mix in mixes), strict=True)
            ],
            "gamma": statistics.mean(mix["gamma"] for mix in mixes),
        }
        for mixes in zip(*runs, strict=True)
    ]


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than a comparison."""
    if not (folder / REQUEST_FILE).is_file() and not is_vacant(folder):
        raise InputError(f"{folder} is not empty and holds no comparison; give a new folder.")


def _check_same(bench: Workbench, settings: TaskSettings, folder: Path) -> None:
    """Go on only with what was begun: runs on other data or settings must not stand in one table."""
    inputs = absolute(bench.inputs)
    now = json.loads(
        json.dumps({"inputs": asdict(inputs), "settings": settings.to_dict(), "data": hash_inputs(inputs)})
    )
    path = folder / REQUEST_FILE
    if path.exists():
        if (then := read_json(path)) != now:
            different = [name for name in now if then.get(name) != now[name]]
            raise InputError(
                f"{folder} holds a comparison with other {' and '.join(different)}; give a new folder, or the "
                "same options as before (variants, seeds and fractions may be added)."
            )
        return
    _check_folder(folder)
    replace_file(path, json.dumps(now, indent=1).encode())


def _check_same_bilm(bench: Workbench, folder: Path, request: Request) -> None:
    """Go on only with the biLM of the runs that are done; a name may mean another one than it did."""
    known = {read_json(path).get("bilm_hash") for path in (folder / RUNS).glob(f"*/{SCORES_FILE}")} - {None}
    if known and set(request.variants) != {BASELINE} and known != {content_hash(bench.frozen)}:
        raise InputError(
            f"{folder} holds runs with another biLM than {bench.inputs.model or 'the default model'} is now; give "
            "a new folder."
        )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found.update(_flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value})
    return found
