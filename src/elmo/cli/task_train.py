"""`elmo task train`: labelled files -> a trained task, or a table of how much ELMo helps."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options, task_options
from elmo.cli.resuming import resumable
from elmo.cli.task_report import TaskReport
from elmo.cli.train import read_changes
from elmo.errors import InputError
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.tasks.run_folder import TaskInputs
    from elmo.tasks.settings import TaskSettings

VARIANTS, NUM_SEEDS, CACHE_GIGABYTES = "baseline,top,learned,tuned", 3, 20.0


def train(
    family: Annotated[
        str | None,
        typer.Argument(
            metavar="FAMILY",
            show_default=False,
            help="tagging (or ner, pos, chunking), classification (sentiment, topic), pairs (similarity, "
            "entailment), relations, spans (qa: answers to questions) or senses (wsd).",
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option("--train", metavar="FILE", help="Labelled examples to learn from.")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option("--dev", metavar="FILE", help="Examples that decide when to stop; else a tenth of --train."),
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="FILE", help="Examples to measure on, once, at the end.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN", help="The new folder of the trained task.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run from its last epoch, exactly.")
    ] = None,
    model: options.ModelName = None,
    elmo: Annotated[
        str | None,
        typer.Option(help="Where ELMo enters: none, input (the default), output or both.", show_default=False),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Which layers: learned weights (the default), top or concat.")
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Train the biLM along, instead of keeping it frozen.")
    ] = False,
    network: Annotated[
        str | None, typer.Option(help="The network between: bilstm, cnn or linear.", show_default=False)
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(
            "--word-features",
            metavar="KINDS",
            show_default=False,
            help="What stands beside ELMo: learned, pretrained, characters, several joined by commas, or none.",
        ),
    ] = None,
    word_vectors: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="GloVe or word2vec vectors, for pretrained words; .bin needs gensim."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.", show_default=False)] = None,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.", show_default=False)] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="One setting, as in network.dim=300; repeatable.",
        ),
    ] = None,
    format: task_options.FormatChoice = None,
    column: task_options.Columns = None,
    header: task_options.Header = None,
    target: Annotated[
        str, typer.Option(help="Of pairs: label, score (a number), or auto by what stands there.")
    ] = "auto",
    split_on_spaces: options.SplitOnSpaces = False,
    map_label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW", show_default=False, help="Rename a label; an empty NEW leaves it out. Repeatable."
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Train variants on the same seeds and print a table.")
    ] = False,
    variants: Annotated[
        str, typer.Option(help="Of --compare: baseline, top, learned, concat, output, both, tuned.")
    ] = VARIANTS,
    seeds: Annotated[int, typer.Option(help="Of --compare: how many, from --seed on.", min=1)] = NUM_SEEDS,
    fractions: Annotated[
        str, typer.Option(help="Of --compare: shares of the training data, for a learning curve.")
    ] = "1",
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Of --compare: keep each run as a task, not its scores alone.")
    ] = False,
    precision: task_options.Precision = None,
    cache: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where layers of the frozen biLM are kept.")
    ] = None,
    cache_gigabytes: Annotated[float, typer.Option(help="How large that may become.", min=0)] = CACHE_GIGABYTES,
    carry_bilm: Annotated[
        bool, typer.Option("--carry-bilm", help="Copy the biLM into RUN, so that RUN needs nothing else.")
    ] = False,
    sense_index: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="WordNet's index.sense: the first sense of lemmas that --train lacks."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where the frozen biLM runs: cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Train a task with ELMo in it. Killed at any moment, --resume goes on exactly.

    \b
    Examples:
      elmo task train pos --train train.conllu --dev dev.conllu --test test.conllu --output tagger
      elmo task train sentiment --train reviews.csv --column label=stars --output stars
      elmo task train tagging --train train.conll --compare --fractions 0.01,0.1,1 --output compared
    """
    from elmo.tasks import run_folder
    from elmo.tasks.settings import FAMILY_ALIASES, make_settings

    reuse_large_blocks()
    given = {
        "FAMILY": family, "--train": train, "--dev": dev, "--test": test, "--output": output, "--model": model,
        "--elmo": elmo, "--layers": layers, "--tune": tune, "--network": network, "--word-features": words,
        "--word-vectors": word_vectors, "--seed": seed, "--epochs": epochs, "--set": set_, "--format": format,
        "--column": column, "--map-label": map_label, "--compare": compare, "--precision": precision,
        "--header": header is not None, "--target": target != "auto", "--split-on-spaces": split_on_spaces,
        "--cache": cache, "--cache-gigabytes": cache_gigabytes != CACHE_GIGABYTES, "--carry-bilm": carry_bilm,
        "--sense-index": sense_index, "--device": device != "cpu",
    }  # fmt: skip
    of_compare = {
        "--variants": variants != VARIANTS, "--seeds": seeds != NUM_SEEDS, "--fractions": fractions != "1",
        "--keep-runs": keep_runs,
    }  # fmt: skip
    if not compare and (others := [name for name, is_given in of_compare.items() if is_given]):
        raise InputError(f"{', '.join(others)} belongs to --compare; give that too, or leave it out.")
    if resume is not None:
        if others := [name for name, value in given.items() if value]:
            raise InputError(f"--resume goes on with the settings of the run, so it takes no {', '.join(others)}.")
        inputs, settings = run_folder.read_run(resume)
        if run_folder.is_done(resume):
            return _report(resume, run_folder.finish(resume), as_json=as_json)
        return _train_one(inputs, settings, resume, as_json=as_json)
    if family is None or train is None or output is None:
        raise InputError(
            "Give FAMILY, --train FILE and --output RUN for a new run, or --resume RUN for an old one."
        )
    family, usual_target = FAMILY_ALIASES.get(family, (family, "auto"))
    target = usual_target if target == "auto" else target
    changes = _changes(elmo, layers, tune, network, words, word_vectors, seed, epochs)
    settings = make_settings(family, {**changes, **read_changes(set_ or [])})
    if word_vectors is not None and "pretrained" not in settings.words.kinds:
        raise InputError("--word-vectors is for pretrained words, but --word-features has none; add them there.")
    inputs = run_folder.TaskInputs(
        family, train, dev, test, model,
        precision=precision or "float32",
        word_vectors=word_vectors,
        read=task_options.make_read_settings(format, column, header, target, split_on_spaces),
        label_map=task_options.read_pairs(map_label, "--map-label", may_be_empty=True),
        cache_folder=cache,
        cache_bytes=round(cache_gigabytes * 2**30),
        carry_bilm=carry_bilm,
        sense_index=sense_index,
        device=device,
    )  # fmt: skip
    if compare:
        return _compare(inputs, settings, output, variants, seeds, fractions, keep=keep_runs, as_json=as_json)
    run_folder.check_new(output)
    _train_one(inputs, settings, output, as_json=as_json, is_new=True)


def _train_one(
    inputs: "TaskInputs", settings: "TaskSettings", folder: Path, *, as_json: bool, is_new: bool = False
) -> None:
    from elmo.tasks.run_folder import is_started, start
    from elmo.tasks.training import train_task
    from elmo.tasks.workbench import Workbench

    def find_resuming() -> list[str] | None:
        return ["task", "train", "--resume", str(folder)] if is_started(folder) else None

    with resumable(find_resuming), TaskReport(settings.fit.num_epochs) as report:
        bench = Workbench(inputs, on_words=report.on_words)
        for note in bench.parts.notes:
            report.say(note)
        bench.prepare(settings)  # a mistake in the inputs leaves no folder
        if is_new:
            start(inputs, settings, folder)
        scores = train_task(bench, settings, folder, watcher=report.watcher())
    _report(folder, scores, as_json=as_json)


def _report(folder: Path, scores: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: value for name, value in scores.items() if name not in ("history", "settings")}))
        return
    part = "test" if scores["test"] else "dev"
    listed = ", ".join(f"{name} {value:.2f}" for name, value in scores[part].items())
    print(f"{folder} is done, best after epoch {scores['best_epoch']}: {part} {listed}.")
    print(f"Use it: elmo task predict {folder} FILE, or elmo.tasks.load({str(folder)!r}).predict([…]).")


def _compare(
    inputs: "TaskInputs",
    settings: "TaskSettings",
    folder: Path,
    variants: str,
    num_seeds: int,
    fractions: str,
    *,
    keep: bool,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from elmo.tasks.compare import Request, format_table, run_comparison
    from elmo.tasks.learning_curve import draw_learning_curve
    from elmo.tasks.workbench import Workbench

    first = settings.fit.seed
    request = Request(
        tuple(name.strip() for name in variants.split(",") if name.strip()),
        tuple(range(first, first + num_seeds)),
        _read_fractions(fractions),
    )
    with resumable(), TaskReport(settings.fit.num_epochs) as report:
        bench = Workbench(inputs, on_words=report.on_words)
        for note in bench.parts.notes:
            report.say(note)
        rows = run_comparison(bench, settings, folder, request, keep=keep, on_run=report.on_run)
    if len(request.fractions) > 1:
        draw_learning_curve(rows, folder / "learning-curve.png", f"{inputs.family}: {Path(inputs.train).name}")
    if as_json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        print(format_table(rows))


def _read_fractions(given: str) -> tuple[float, ...]:
    try:
        fractions = tuple(sorted({float(part) for part in given.split(",")}))
    except ValueError:
        fractions = ()
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise InputError(f"--fractions is {given!r}; give shares above 0 and at most 1, as in 0.01,0.1,1.")
    return fractions


def _changes(
    elmo: str | None,
    layers: str | None,
    tune: bool,
    network: str | None,
    words: str | None,
    word_vectors: str | None,
    seed: int | None,
    epochs: int | None,
) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "elmo.where": elmo, "elmo.layers": layers, "elmo.tune": tune or None, "network.kind": network,
        "fit.seed": seed, "fit.num_epochs": epochs,
    }  # fmt: skip
    if words is not None:
        kinds = [kind.strip() for kind in words.split(",") if kind.strip()]
        changes["words.kinds"] = [] if kinds == ["none"] else kinds
    elif word_vectors is not None:
        changes["words.kinds"] = ["pretrained"]
    return {name: value for name, value in changes.items() if value is not None}
