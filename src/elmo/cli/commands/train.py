"""`elmo train`: train a bidirectional language model on a prepared corpus."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.run import resumable
from elmo.cli.terminal import say
from elmo.errors import InputError
from elmo.extras import require
from elmo.language import translate

if TYPE_CHECKING:
    from elmo.pretrain.launch import TrainingResult


def train(
    corpus: Path | None = argument("CORPUS", "Folder written by `elmo prepare`.", None),
    output: Path | None = option("--output -o RUN", "New folder for the run.", None),
    resume: Path | None = option("RUN", "Resume this run, exactly.", None),
    preset: str | None = option("", "Settings to start from: tiny, en-small, small, medium or original.", None),
    config: Path | None = option("FILE", "TOML file of settings that override the preset.", None),
    set_: list[str] | None = option(
        "--set NAME=VALUE",
        "A setting such as optimizer.learning_rate=0.1; overrides preset and file; repeatable.",
        None,
        shown=False,
    ),
    validation: list[str] | None = option("FILE", "Raw text to validate on; repeatable.", None, shown=False),
    init: str | None = option("MODEL", "Model to start from, to adapt it to other text.", None),
    teacher: str | None = option("ENCODER", "Hugging Face encoder to distill.", None),
    teacher_words: float | None = option("WEIGHT", "Weight of its word vectors.", None, shown="10", min=0),
    teacher_sentences: float | None = option("WEIGHT", "Weight of its sentence vectors.", None, shown="0", min=0),
    device: options.Device = "cpu",
    threads: options.Threads = None,
) -> None:
    """Train a bidirectional language model.

    An interrupted run resumes exactly with --resume. Ctrl-C and SIGTERM save after the current update and stop.

    \b
    Examples:
      elmo train corpus --preset small --validation valid.txt --output run
      elmo train corpus --init en-small --teacher ENCODER --teacher-sentences 10 --output run
      elmo train --resume run
      torchrun --nproc-per-node 8 -m elmo train corpus --preset original --output run --device cuda
    """
    torch = require("torch", "train", "elmo train")
    if threads is not None:
        torch.set_num_threads(threads)
    from elmo.checkpoint.source import RUN_FILE
    from elmo.pretrain import launch

    if resume is not None:
        options.check_resume("--device", "--threads")
    folder = output or resume
    if folder is None or (corpus or resume) is None:
        raise InputError("Give CORPUS and --output RUN for a new run, or --resume RUN to resume one.")
    with resumable(lambda: ["train", "--resume", str(folder)] if (folder / RUN_FILE).exists() else None):
        if corpus is None:
            result = launch.resume_training(folder, device=device, show_progress_bar=True)
        else:
            changes = options.read_changes(set_)
            distilled = {"model": teacher, "words": teacher_words, "sentences": teacher_sentences}
            changes |= {f"teacher.{name}": value for name, value in distilled.items() if value is not None}
            result = launch.train(
                corpus, folder, preset=preset, config=config, changes=changes, validation=validation or (),
                init=init, device=device, show_progress_bar=True,
            )  # fmt: skip
    _report(result)


def _report(result: "TrainingResult") -> None:
    """Print the result of a run, in the first process only; if a signal stopped it, exit with that signal's code."""
    if result.is_first and result.is_done:
        say(f"{result.folder} is done: {result.num_words:,} words read.")
        if result.perplexity is not None:
            say(f"Validation perplexity (full softmax): {result.perplexity:.2f}.")
        say(f"Open it with Elmo.from_pretrained({str(result.folder)!r}).")
    elif result.is_first:
        again = f"elmo train --resume {shlex.quote(str(result.folder))}"
        message = translate(f"stopped after update {result.num_updates:,}, which is saved; resume: {again}")
        print(message, file=sys.stderr)
    if result.stopped_by is not None:
        click.get_current_context().exit(128 + result.stopped_by)
