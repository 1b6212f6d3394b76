"""A training run: batches -> updates, metrics, validations and checkpoints.

launch.py opens runs; loop.py makes one update; checkpoints.py saves and loads the state of training.
"""

import math
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.source import CHECKPOINTS, list_checkpoints
from elmo.config import SoftmaxConfig
from elmo.corpus.prepared import PreparedCorpus
from elmo.files.durable import holding
from elmo.inference.scoring import evaluate_text
from elmo.model import Elmo
from elmo.nn.bilm import BiLM
from elmo.nn.build import build_bilm, to_tensors, weights_of
from elmo.pretrain.auxiliary import AuxiliaryObjective, SentenceBatch
from elmo.pretrain.checkpoints import load_checkpoint, save_checkpoint
from elmo.pretrain.distillation import Distillation
from elmo.pretrain.distributed import Processes
from elmo.pretrain.loop import Objective, StepReport, TrainState, build_optimizer, train_step
from elmo.pretrain.metrics import TrainingReport, append_metrics, drop_metrics
from elmo.pretrain.settings import TrainSettings
from elmo.pretrain.stream import LMBatch, Position, TokenReader, read_ahead, read_windows
from elmo.text.vocabulary import Vocabulary

METRICS = ("perplexity", "left_to_right_perplexity", "right_to_left_perplexity", "unknown_rate")


class Run:
    """One process of a training run."""

    def __init__(
        self,
        folder: Path,
        corpus: PreparedCorpus,
        settings: TrainSettings,
        *,
        validation: Sequence[Sequence[str]],
        processes: Processes,
        start_from: Checkpoint | None = None,
    ) -> None:
        """Open a run at the last checkpoint in its folder, or at its beginning.

        `start_from` is the model of that checkpoint, or the initial model.
        """
        self.folder, self.corpus, self.settings = folder, corpus, settings
        self._validation, self._processes, self.is_first = validation, processes, processes.is_first
        # The sizes follow from the vocabulary of the corpus.
        config, num_words = settings.model, len(corpus.vocabulary)
        words = replace(config.words, num_words=num_words) if config.words else None
        softmax = SoftmaxConfig(num_words, shared=settings.share_softmax)
        self.config = replace(config, words=words, softmax=softmax)
        num_updates = math.ceil(settings.num_epochs * corpus.num_tokens / (settings.num_rows * settings.num_steps))
        self.num_updates = min(num_updates, settings.max_updates or num_updates)
        self._word_counts = _count_vocabulary(corpus)
        self.perplexity: float | None = None  # at the last validation, in this process
        self.auxiliary: AuxiliaryObjective = AuxiliaryObjective()
        torch.manual_seed(settings.seed)
        if settings.teacher is not None:
            self.auxiliary = Distillation(
                settings.teacher, corpus, self.config, processes, start_from,
                folder=folder, num_updates=self.num_updates, seed=settings.seed,
            ).to(processes.device)  # fmt: skip
        self.state = self._make_state(start_from)
        if checkpoints := list_checkpoints(folder):
            load_checkpoint(self.state, checkpoints[-1])
        else:
            self.auxiliary.initialize(self.state.objective.encode_sentences)

    def _make_state(self, start_from: Checkpoint | None) -> TrainState:
        settings, processes = self.settings, self._processes
        torch.manual_seed(settings.seed)
        bilm = build_bilm(self.config)
        if start_from is not None:
            bilm.load_state_dict(to_tensors(start_from.weights))
        elif settings.softmax_bias == "frequency":
            _set_frequency_bias(bilm, self._word_counts)
        bilm = bilm.to(processes.device)
        assert bilm.softmaxes is not None
        for softmax in bilm.softmaxes:  # AdamW changes every row in every update
            softmax.sparse_gradient = settings.optimizer.kind == "adagrad" and settings.num_samples > 0
        objective = Objective(
            bilm,
            dropout=settings.dropout,
            product_dtype=getattr(torch, settings.precision),
            auxiliary=self.auxiliary,
        )
        rows = processes.share(settings.num_rows)
        return TrainState(
            objective=objective,
            optimizer=build_optimizer(objective.parameters(), settings.optimizer),
            bilm_state=bilm.zero_state(len(rows)),
            position=Position(block=tuple(rows), offset=(0,) * len(rows)),
            processes=processes,
        )

    def close(self) -> None:
        """Leave the process group."""
        self._processes.leave()

    def checkpoint(self) -> Checkpoint:
        """Return the model as it is now."""
        checkpoint = Checkpoint(
            self.config,
            weights_of(self.state.objective.bilm),
            vocabulary=self.corpus.vocabulary,
            origin={"format": "trained", "source": self.folder.name},
            word_counts=self._word_counts,
        )
        return self.auxiliary.add_to(checkpoint)

    def train(self, report: TrainingReport | None = None, *, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end of the run; return whether it was reached.

        `should_stop` is called after each update. When it returns True in any process, all of them save and stop.
        """
        settings, state, self._report = self.settings, self.state, report
        state.objective.train()
        with ExitStack() as stack:
            if self.is_first:
                # Two processes training in one folder would remove each other's checkpoints.
                message = f"Another process is training in {self.folder}; wait for it, or stop it first."
                stack.enter_context(holding(self.folder, message, self.folder / CHECKPOINTS))
                self._remove_old()  # left by a killed process
                drop_metrics(self.folder, after=state.num_updates)
            batches = stack.enter_context(closing(self._read_batches()))
            while state.num_updates < self.num_updates:
                step = train_step(
                    state, batches, settings, num_updates=self.num_updates, num_words=len(self.corpus.vocabulary)
                )
                self._after(step)
                if state.num_updates < self.num_updates and self._processes.any(should_stop()):
                    self._save()
                    return False
        return True

    def _read_batches(self) -> Generator[tuple[LMBatch, SentenceBatch | None], None, None]:
        """Yield the next windows of this process, each with its batch of sentences."""
        settings = self.settings
        windows = read_windows(
            TokenReader(self.corpus, self.config),
            num_rows=settings.num_rows,
            num_steps=settings.num_steps,
            seed=settings.seed,
            reset_at_sentences=settings.reset_state == "sentence",
            position=self.state.position,
        )
        sentences = self.auxiliary.batches(num_updates=self.state.num_updates)
        return read_ahead(zip(windows, sentences, strict=False))

    def _after(self, step: StepReport) -> None:
        """Write metrics, validate and save after an update, where the settings say so."""
        settings, update, report = self.settings, step.update, self._report
        is_last = update == self.num_updates
        validates = bool(self._validation) and (is_last or update % settings.validate_every == 0)
        if self.is_first:
            if report is not None:
                report.on_update(step)
            if is_last or update % settings.log_every == 0:
                append_metrics(self.folder, "train", update, step.describe(sampled=settings.num_samples > 0))
            if validates:
                values = self._validate()
                append_metrics(self.folder, "validation", update, values)
                self.perplexity = values["perplexity"]
                if report is not None:
                    report.on_validation(update, values)
        if is_last or validates or update % settings.checkpoint_every == 0:
            self._save()

    def _validate(self) -> dict[str, float]:
        checkpoint, carries_state = self.checkpoint(), self.settings.reset_state == "never"
        model = Elmo(checkpoint, device=str(self._processes.device), state="carry" if carries_state else "zero")
        evaluation = evaluate_text(model, self._validation)
        values = {name: getattr(evaluation, name) for name in METRICS}
        return values | self.auxiliary.validate(checkpoint, self._validation)

    def _save(self) -> None:
        folder = save_checkpoint(self.folder, self.state, self.checkpoint())
        if self.is_first:
            self._remove_old()
            if self._report is not None:
                self._report.on_checkpoint(folder)

    def _remove_old(self) -> None:
        """Delete all but the last checkpoints."""
        for folder in list_checkpoints(self.folder)[: -self.settings.keep_checkpoints]:
            shutil.rmtree(folder)


def _count_vocabulary(corpus: PreparedCorpus) -> tuple[int, ...]:
    """Return the counts of the words of the vocabulary in the corpus; a boundary occurs once per sentence."""
    counts = np.bincount(corpus.targets[1:], weights=corpus.word_counts[1:], minlength=len(corpus.vocabulary))
    counts[Vocabulary(corpus.vocabulary).boundaries()] = corpus.num_sentences
    return tuple(counts.astype(np.int64).tolist())


def _set_frequency_bias(bilm: BiLM, word_counts: Sequence[int]) -> None:
    """Initialize the bias of each word to the log of its relative frequency.

    AdamW changes a weight by about the learning rate per update, so a bias of -10 would take thousands of updates.
    """
    counts = np.array(word_counts, dtype=np.float64)
    bias = torch.from_numpy(np.log((counts + 1) / (counts + 1).sum()))
    assert bilm.softmaxes is not None
    with torch.no_grad():
        for softmax in bilm.softmaxes:
            softmax.bias.copy_(bias)
