"""`elmo train`: a prepared corpus -> a trained model, or a run that goes on where it stopped."""

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.resuming import resumable
from elmo.cli.training_report import TrainingReport
from elmo.errors import InputError
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.pretrain.run import Run


def train(
    corpus: Annotated[
        Path | None,
        typer.Argument(metavar="CORPUS", show_default=False, help="A folder that `elmo prepare` wrote."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN", help="The new folder of the run.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a run from its last checkpoint, exactly; with --output and --set in a new folder, "
            "with other settings.",
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Settings to start from: tiny, en-small, small, medium or original.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings in TOML, over the preset.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="One setting, over the file, as in optimizer.learning_rate=0.1; repeatable.",
        ),
    ] = None,
    validation: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", show_default=False, help="Raw text never trained on; repeatable."),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Begin with this model's weights, to adapt it to other text."),
    ] = None,
    word_vectors: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="GloVe or word2vec text that the word embedding begins with."),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="ENCODER",
            help="Also learn the word vectors of this Hugging Face encoder, a folder or a name on the hub.",
        ),
    ] = None,
    device: options.Device = "cpu",
) -> None:
    """Train a bidirectional language model. Killed at any moment, --resume goes on exactly.

    Ctrl-C and SIGTERM save the update that is being made, and stop.

    \b
    Examples:
      elmo train corpus --preset small --validation valid.txt --output run
      elmo train --resume run
      elmo train --resume run --output cooled --set max_updates=9000 --set optimizer.cooldown_steps=1000
      torchrun --nproc-per-node 8 -m elmo train corpus --preset original --output run --device cuda
    """
    from elmo.pretrain.stopping import StopRequest

    reuse_large_blocks()
    run = _open(corpus, output, resume, preset, config, set_, validation, init, word_vectors, teacher, device)
    is_sampled = run.settings.num_samples > 0
    report = TrainingReport(run.num_updates, is_sampled=is_sampled, is_shown=run.is_first)
    watcher = report.watcher(run.state.num_updates, run.state.num_words)
    try:
        with resumable(lambda: ["train", "--resume", str(run.folder)]), report, StopRequest() as stop:
            is_done = run.train(watcher, should_stop=stop.is_asked)
    finally:
        run.close()
    if not is_done:
        if run.is_first:
            print(
                f"stopped after update {run.state.num_updates:,}, which is saved; resume: "
                f"elmo train --resume {shlex.quote(str(run.folder))}",
                file=sys.stderr,
            )
        raise typer.Exit(128 + (stop.signal or signal.SIGTERM))
    if run.is_first:
        print(f"{run.folder} is done: {report.summary()} Open it with Elmo.from_pretrained({str(run.folder)!r}).")


def _open(
    corpus: Path | None,
    output: Path | None,
    resume: Path | None,
    preset: str | None,
    config: Path | None,
    changes: list[str] | None,
    validation: list[str] | None,
    init: str | None,
    word_vectors: str | None,
    teacher: str | None,
    device: str,
) -> "Run":
    from elmo.pretrain import launch
    from elmo.pretrain.branch import branch
    from elmo.pretrain.settings import read_settings

    if resume is not None:
        given = [
            name
            for name, value in (
                ("CORPUS", corpus), ("--preset", preset), ("--config", config), ("--validation", validation),
                ("--init", init), ("--word-vectors", word_vectors), ("--teacher", teacher),
            )
            if value
        ]  # fmt: skip
        if given:
            raise InputError(f"--resume goes on with the settings of the run, so it takes no {', '.join(given)}.")
        if output is not None:
            return branch(resume, output, read_changes(changes or []), device=device)
        if changes:
            raise InputError("--resume goes on exactly; to change a setting give a new folder too, by --output.")
        return launch.resume(resume, device=device)
    if corpus is None or output is None:
        raise InputError("Give CORPUS and --output RUN for a new run, or --resume RUN to go on with one.")
    single = read_changes(changes or [])
    if teacher is not None:
        single["teacher.model"] = teacher
    of_model = [name for name in single if name.split(".")[0] in ("model", "share_softmax", "softmax_bias")]
    if init is not None and of_model:
        raise InputError(f"--init brings its model as it is, so it takes no --set {', '.join(of_model)}.")
    settings = read_settings(preset=preset, file=config, changes=single)
    inputs = launch.Inputs(str(corpus), tuple(validation or ()), init, word_vectors)
    return launch.start(output, inputs, settings, device=device)


def read_changes(changes: list[str]) -> dict[str, Any]:
    """Give what NAME=VALUE arguments say; a value is TOML, or a word without its quotes."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    found: dict[str, Any] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set {change!r} is not NAME=VALUE, as in optimizer.learning_rate=0.1.")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()  # a word without its quotes
    return found
