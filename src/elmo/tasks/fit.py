"""The training loop of all families: examples -> the weights with the best dev score.

All random numbers depend only on the seed and the epoch, and the state is saved after each epoch, so a run that is
killed and resumed ends with the same weights and scores.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.progress import StatusBar, describe
from elmo.tasks.families.network import TaskNetwork
from elmo.tasks.families.pooled import PooledClassifier
from elmo.tasks.settings import FitSettings, TaskSettings

Weights = dict[str, Tensor]
RATE_CUT = 0.5  # the learning rate is multiplied by this when half the patience is used up
# Without decay, the best epoch comes after about USUAL_EPOCHS; decay over fewer epochs starts at a higher rate.
USUAL_EPOCHS, MAX_PEAK = 15, 3.0
CLIP_NORM = 5.0
BILM_PREFIX = "encoder.elmo.bilm."  # of the names of a tuned biLM's weights
_POOLED_BATCHES = 50  # number of batches whose examples are sorted by length together


class TaskReport:
    """Reports the progress of one or several runs on stderr; nothing is printed unless `shown`."""

    def __init__(self, *, shown: bool = False) -> None:
        self.run_name = ""  # prefix of every line
        self._shown, self._bar = shown, StatusBar(1, shown=shown)
        self._phase, self._started = "", time.monotonic()

    def __enter__(self) -> "TaskReport":
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def say(self, line: str) -> None:
        """Print a line above the progress bar."""
        if self._shown:
            self._bar.say(f"{self.run_name}{line}")

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Print the scores of an epoch."""
        scores = ", ".join(f"{name} {value:.2f}" for name, value in record["dev"].items())
        best = ", the best so far" if record["best"] else ""
        seconds = time.monotonic() - self._started
        self.say(f"epoch {record['epoch']}: loss {record['loss']:.4f}, dev {scores}{best} ({seconds:.1f} s)")

    def show(self, phase: str, unit: str, done: int, total: int) -> None:
        """Show how much of a phase is done, in units such as words or batches."""
        phase = f"{self.run_name}{phase}"
        if phase != self._phase:
            self._phase, self._started = phase, time.monotonic()
        elapsed_seconds = max(1e-9, time.monotonic() - self._started)
        self._bar.show(done / max(1, total), f"{phase}: {describe(done, unit, elapsed_seconds, done, total)}")


@contextmanager
def limit_threads(num_threads: int) -> Iterator[None]:
    """Set the number of threads of torch within the context, and restore it afterwards.

    Networks this small gain nothing from a second thread and, on a busy machine, wait for it at every step.
    """
    previous = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


@dataclass
class FitState:
    """The state of training after an epoch."""

    epoch: int = 0
    best_score: float = math.nan  # NaN before the first epoch
    best_epoch: int = 0
    rate: float = 1.0
    best_weights: Weights = field(default_factory=dict)
    weights: Weights = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    bilm_hash: str | None = None  # fingerprint of the biLM that the run started with; None without ELMo

    def record_epoch(self, loss: float | None, scores: dict[str, float], metric: str, fit: FitSettings) -> None:
        """Record an epoch and whether it is the best so far."""
        is_best = math.isnan(self.best_score) or scores[metric] > self.best_score
        if is_best:
            self.best_score, self.best_epoch = scores[metric], self.epoch
        elif not fit.linear_decay and (self.epoch - self.best_epoch) % max(1, (fit.patience + 1) // 2) == 0:
            self.rate *= RATE_CUT
        self.history.append({"epoch": self.epoch, "loss": loss, "dev": scores, "best": is_best})


def fit(
    network: TaskNetwork,
    settings: TaskSettings,
    train: Sequence[Any],
    dev: Sequence[Any],
    *,
    state: FitState,
    save: Callable[[FitState], None],
    report: TaskReport,
) -> None:
    """Train until the dev score has not risen for `patience` epochs; the network ends with the best weights.

    Training starts from `state`, which is updated in place and passed to `save` after each epoch. With linear_decay,
    training never stops early. Only networks that fit directly work without dev examples; their scores then come from
    cross-validation.
    """
    if isinstance(network, PooledClassifier):
        held_out = network.eval().fit_examples(train, settings.fit.seed)
        scores = network.evaluate(dev) if dev else network.score(train, held_out)
        state.epoch = 1
        state.record_epoch(None, scores, network.metric, settings.fit)
        state.best_weights = state.weights = _copy_weights(network)
        return
    optimizer = _make_optimizer(network, settings)
    if state.epoch:
        network.load_state_dict(state.weights)
        optimizer.load_state_dict(state.optimizer)
    patience = settings.fit.num_epochs if settings.fit.linear_decay else settings.fit.patience
    while state.epoch < settings.fit.num_epochs and state.epoch - state.best_epoch < patience:
        state.epoch += 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.fit.seed * 1_000_003 + state.epoch)
            loss = _train_epoch(network, settings, state, train, optimizer, report)
        state.record_epoch(loss, network.evaluate(dev), network.metric, settings.fit)
        state.weights = _copy_weights(network)
        if state.best_epoch == state.epoch:
            state.best_weights = state.weights
        state.optimizer = optimizer.state_dict()
        save(state)
        report.on_epoch(state.history[-1])
    network.load_state_dict(state.best_weights)


def _train_epoch(
    network: TaskNetwork,
    settings: TaskSettings,
    state: FitState,
    train: Sequence[Any],
    optimizer: torch.optim.Optimizer,
    report: TaskReport,
) -> float:
    fit = settings.fit
    network.train()
    rng = random.Random(f"{fit.seed} {state.epoch}")
    lengths = [network.num_words(example) for example in train]
    batches: list[list[int]] = []
    while len(batches) < fit.min_batches:
        batches += _length_batches(lengths, fit.batch_size, rng)
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    total_loss = 0.0
    mixes = network.mixes
    for number, batch in enumerate(batches, start=1):
        rate = state.rate
        if fit.linear_decay:
            rate = decayed_rate(state.epoch - 1 + (number - 1) / len(batches), fit.num_epochs)
        for group in optimizer.param_groups:
            group["lr"] = group["full_rate"] * rate
        loss = network.loss([train[index] for index in batch])
        total_loss += loss.item()
        if mixes is not None and settings.elmo.mix_penalty:
            loss = loss + mixes.penalty(settings.elmo.mix_penalty)
        optimizer.zero_grad()
        if loss.requires_grad:  # a batch may have nothing to learn from
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trainable, CLIP_NORM)
            optimizer.step()
        report.show(f"epoch {state.epoch}", "batches", number, len(batches))
    mean = total_loss / len(batches)
    if math.isnan(mean):
        raise InputError(
            f"The loss is not a number in epoch {state.epoch}; lower fit.learning_rate ({fit.learning_rate})."
        )
    return mean


def decayed_rate(num_done: float, num_epochs: int) -> float:
    """Return the factor of the learning rate after `num_done` epochs, which may be fractional, of linear decay."""
    peak = min(MAX_PEAK, max(1.0, 2 * USUAL_EPOCHS / num_epochs))
    return peak * (1 - num_done / num_epochs)


def _length_batches(lengths: Sequence[int], batch_size: int, rng: random.Random) -> list[list[int]]:
    """Group shuffled examples into batches of similar length, in random order."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    pool = _POOLED_BATCHES * batch_size
    batches = []
    for start in range(0, len(order), pool):
        pooled = sorted(order[start : start + pool], key=lambda number: lengths[number])
        batches += [pooled[first : first + batch_size] for first in range(0, len(pooled), batch_size)]
    rng.shuffle(batches)
    return batches


def _make_optimizer(network: TaskNetwork, settings: TaskSettings) -> torch.optim.Optimizer:
    of_task: list[Tensor] = []
    of_bilm: list[Tensor] = []
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            (of_bilm if name.startswith(BILM_PREFIX) else of_task).append(parameter)
    rates = (of_task, settings.fit.learning_rate), (of_bilm, settings.elmo.learning_rate)
    return torch.optim.Adam([{"params": params, "lr": rate, "full_rate": rate} for params, rate in rates if params])


def _copy_weights(network: torch.nn.Module) -> Weights:
    return {name: weight.detach().clone() for name, weight in network.state_dict().items()}
