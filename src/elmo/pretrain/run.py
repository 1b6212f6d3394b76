"""A training run from start to end: settings and corpus -> checkpoints, metrics and a model.

Environment, objects and loop are separate: set_up makes a Run, Run.train goes on until it is done.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from elmo.build import build_bilm
from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_json
from elmo.checkpoint.run_folder import BEST_FILE, CHECKPOINTS, checkpoint_folder, list_checkpoints, read_best
from elmo.config import ModelConfig, SoftmaxConfig
from elmo.corpus.prepared import PreparedCorpus
from elmo.files.durable import holding
from elmo.inference.scoring import Evaluation, evaluate_text
from elmo.model import Elmo
from elmo.pretrain.distillation import Distillation
from elmo.pretrain.distributed import Processes
from elmo.pretrain.first_weights import count_vocabulary, set_frequency_bias
from elmo.pretrain.loop import StepReport, TrainState, train_step
from elmo.pretrain.metrics import MetricsWriter, read_metrics
from elmo.pretrain.objective import Objective
from elmo.pretrain.optimizer import build_optimizer
from elmo.pretrain.saving import remove_old, restore, save_checkpoint
from elmo.pretrain.settings import TrainSettings
from elmo.pretrain.stream import Position, WindowStream, read_ahead

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Watcher:
    """What a caller wants to hear of while a run goes on; each is called in the first process only."""

    on_update: Callable[[StepReport], None] = lambda report: None
    # The last one is the mean cosine with the teacher's vectors, where there is a teacher.
    on_validation: Callable[[int, Evaluation, float | None], None] = lambda update, evaluation, cosine: None
    on_checkpoint: Callable[[Path], None] = lambda folder: None


class Run:
    """One process's part in a training run."""

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
        self.folder, self.corpus, self.settings = folder, corpus, settings
        self._validation, self._processes = validation, processes
        self.config = _complete(settings, corpus)
        self.num_updates = count_updates(settings, corpus)
        self._word_counts = count_vocabulary(corpus)
        self._best: tuple[float, str] | None = None
        teacher = settings.teacher
        self._distillation = None
        if teacher is not None:
            self._distillation = Distillation(teacher, processes, num_updates=self.num_updates)
        self.state = self._make_state(start_from)

    def _make_state(self, start_from: Checkpoint | None) -> TrainState:
        settings, processes = self.settings, self._processes
        torch.manual_seed(settings.seed)
        bilm = build_bilm(self.config)
        if start_from is not None:
            bilm.load_state_dict(dict(start_from.weights))
        elif settings.softmax_bias == "frequency":
            set_frequency_bias(bilm, self.corpus)
        bilm = bilm.to(processes.device)
        assert bilm.softmaxes is not None
        for softmax in bilm.softmaxes:
            softmax.sparse_gradient = settings.updates_touched_rows
        heads = None
        if self._distillation is not None:
            heads = self._distillation.make_heads(num_layers=bilm.num_layers, vector_dim=self.config.vector_dim)
        objective = Objective(
            bilm,
            dropout=settings.dropout,
            product_dtype=DTYPES[settings.precision],
            heads=heads,
            relates=settings.teacher is not None and settings.teacher.relations > 0,
        )
        parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        rows = processes.share(settings.num_rows)
        return TrainState(
            bilm=bilm,
            objective=processes.wrap(objective),
            parameters=parameters,
            optimizer=build_optimizer(parameters, settings.optimizer),
            bilm_state=bilm.zero_state(len(rows)),
            position=Position(block=tuple(rows), offset=(0,) * len(rows)),
            num_updates=0,
            num_words=0,
            heads=heads,
        )

    @property
    def is_first(self) -> bool:
        """Whether this process reports."""
        return self._processes.is_first

    def close(self) -> None:
        """Part from the other processes."""
        self._processes.leave()

    def resume(self) -> bool:
        """Go to where the last checkpoint was written and tell whether there is one."""
        found = list_checkpoints(self.folder)
        if found:
            restore(self.state, found[-1])
            self._best = self._find_best([folder.name for folder in found])
        return bool(found)

    def _find_best(self, names: Sequence[str]) -> tuple[float, str] | None:
        """Read which checkpoint is the best; a process killed before it wrote that left it in the metrics."""
        measured = [
            (line["perplexity"], checkpoint_folder(self.folder, line["update"]).name)
            for line in read_metrics(self.folder)
            if line["kind"] == "validation" and isinstance(line.get("perplexity"), float)
        ]
        if (best := read_best(self.folder)) is not None:
            measured.append(best)
        return min((each for each in measured if each[1] in names), default=None)

    def _write_best(self) -> None:
        """Write down the best checkpoint where a killed process could not, and remove those it would have."""
        if self._best is not None and read_best(self.folder) != self._best:
            perplexity, name = self._best
            write_json(self.folder / BEST_FILE, {"perplexity": perplexity, "checkpoint": name})
        remove_old(self.folder, keep=self.settings.keep_checkpoints, best=self._best[1] if self._best else None)

    def train(self, watcher: Watcher, *, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Update the weights until the run is done, validating and saving on the way, and tell whether it is.

        When `should_stop` says so, to any of the processes, all of them save and stop after the update.
        """
        if not self.is_first:
            return self._train(watcher, should_stop)
        # Two runs in one folder would remove each other's checkpoints.
        with holding_run(self.folder):
            self._write_best()
            return self._train(watcher, should_stop)

    def _train(self, watcher: Watcher, should_stop: Callable[[], bool]) -> bool:
        settings, state = self.settings, self.state
        characters = self.config.characters
        lessons = None
        if self._distillation is not None:
            lessons = self._distillation.lessons(self.corpus, settings, done=state.num_updates)
        stream = WindowStream(
            self.corpus,
            num_rows=settings.num_rows,
            rows=self._processes.share(settings.num_rows),
            num_steps=settings.num_steps,
            seed=settings.seed,
            max_characters=characters.max_characters if characters else None,
            read_words=self.config.words is not None,
            reset_at_sentences=settings.reset_state == "sentence",
            position=state.position,
            lessons=lessons,
        )
        state.objective.train()
        metrics = MetricsWriter(self.folder, resumed_at=state.num_updates) if self._processes.is_first else None
        batches = read_ahead(stream)
        if self._distillation is not None:
            batches = self._distillation.answer(batches)
        try:
            while state.num_updates < self.num_updates:
                report = train_step(
                    state,
                    batches,
                    settings,
                    num_updates=self.num_updates,
                    num_words=len(self.corpus.vocabulary),
                )
                self._after(report, metrics, watcher)
                if state.num_updates < self.num_updates and self._processes.any(should_stop()):
                    self._save(None, watcher)
                    return False
        finally:
            batches.close()
            if metrics is not None:
                metrics.close()
        return True

    def _after(self, report: StepReport, metrics: MetricsWriter | None, watcher: Watcher) -> None:
        settings, update = self.settings, report.update
        is_last = update == self.num_updates
        validates = bool(self._validation) and (is_last or update % settings.validate_every == 0)
        validated = None
        if metrics is not None:
            watcher.on_update(report)
            if is_last or update % settings.log_every == 0:
                metrics.write("train", update, _describe_step(report, sampled=settings.num_samples > 0))
            if validates:
                validated = self._validate()
                cosine = self._compare_with_teacher()
                metrics.write("validation", update, _describe_evaluation(validated, cosine))
                watcher.on_validation(update, validated, cosine)
        if is_last or validates or update % settings.checkpoint_every == 0:
            self._save(validated, watcher)

    def _save(self, validated: Evaluation | None, watcher: Watcher) -> None:
        folder = save_checkpoint(self.folder, self.state, self.checkpoint())
        if not self._processes.is_first:
            return
        if validated is not None and (self._best is None or validated.perplexity < self._best[0]):
            self._best = (validated.perplexity, folder.name)
        self._write_best()
        watcher.on_checkpoint(folder)

    def _validate(self) -> Evaluation:
        carry = self.settings.reset_state == "never"
        model = Elmo(self.checkpoint(), device=self._processes.device, state="carry" if carry else "zero")
        return evaluate_text(model, self._validation)

    def _compare_with_teacher(self) -> float | None:
        heads = self.state.heads
        if self._distillation is None or heads is None:
            return None
        model = Elmo(self.checkpoint(), device=self._processes.device)
        return self._distillation.validate(model, heads, self._validation)

    def checkpoint(self) -> Checkpoint:
        """Give the model as it is now."""
        weights = self.state.bilm.state_dict()
        origin = {"format": "trained", "source": self.folder.name}
        return Checkpoint(
            self.config,
            weights,
            vocabulary=self.corpus.vocabulary,
            origin=origin,
            word_counts=self._word_counts,
        )


def holding_run(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes out of the folder of a run."""
    refusal = f"Another process is training in {folder}; wait for it, or stop it first."
    return holding(folder, refusal, folder / CHECKPOINTS)


def _complete(settings: TrainSettings, corpus: PreparedCorpus) -> ModelConfig:
    """Give the model's configuration with the sizes that follow the corpus's vocabulary."""
    config, num_words = settings.model, len(corpus.vocabulary)
    words = replace(config.words, num_words=num_words) if config.words else None
    return replace(config, words=words, softmax=SoftmaxConfig(num_words, shared=settings.share_softmax))


def count_updates(settings: TrainSettings, corpus: PreparedCorpus) -> int:
    """Give how many updates a run of these settings has."""
    per_update = settings.num_rows * settings.num_steps * settings.windows_per_update
    updates = math.ceil(settings.num_epochs * corpus.num_tokens / per_update)
    return updates if settings.max_updates is None else min(updates, settings.max_updates)


def _describe_step(report: StepReport, *, sampled: bool) -> dict[str, float]:
    kind = "sampled" if sampled else "full"
    described = {
        f"left_to_right_{kind}_loss": report.left_to_right_loss,
        f"right_to_left_{kind}_loss": report.right_to_left_loss,
        "gradient_norm": report.gradient_norm,
        "learning_rate": report.learning_rate,
        "num_words": report.num_words,
    }
    return described | _describe_teacher(report.teacher_cosine)


def _describe_evaluation(evaluation: Evaluation, cosine: float | None) -> dict[str, float]:
    described = {
        "perplexity": evaluation.perplexity,
        "left_to_right_perplexity": evaluation.left_to_right_perplexity,
        "right_to_left_perplexity": evaluation.right_to_left_perplexity,
        "unknown_rate": evaluation.unknown_rate,
    }
    return described | _describe_teacher(cosine)


def _describe_teacher(cosine: float | None) -> dict[str, float]:
    return {} if cosine is None else {"teacher_cosine": cosine}
