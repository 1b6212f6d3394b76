"""The training loop of every family: examples -> the weights with the best dev score.

Everything random is drawn from the seed and the number of the epoch, and the state is saved after each epoch, so
a killed run that goes on gives the same weights and scores.
"""

import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.layer import ElmoLayer
from elmo.tasks.data import length_batches, predict_all
from elmo.tasks.families.family import Family, Labels, Remembers, TaskNetwork
from elmo.tasks.networks.encoder import Batcher
from elmo.tasks.settings import TaskSettings

logger = logging.getLogger(__name__)

Weights = dict[str, Tensor]
RATE_CUT = 0.5  # the learning rate is multiplied by this when half the patience is used up


@dataclass
class FitState:
    """Where training stands after an epoch."""

    epoch: int = 0
    best_score: float = math.nan  # until there is one
    best_epoch: int = 0
    rate: float = 1.0
    best_weights: Weights = field(default_factory=dict)
    weights: Weights = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    bilm_hash: str | None = None  # of the one it began with; None without ELMo


@dataclass(frozen=True)
class Watcher:
    """What is called as training goes on: batches done of all in this epoch; and each epoch's line of history."""

    on_batch: Callable[[int, int, int], None] = lambda epoch, done, total: None
    on_epoch: Callable[[dict[str, Any]], None] = lambda record: None


@dataclass(frozen=True)
class Fitting:
    """One network and all it is trained with."""

    network: torch.nn.Module
    family: Family
    labels: Labels
    settings: TaskSettings
    batcher: Batcher

    def run(
        self,
        train: Sequence[Any],
        dev: Sequence[Any],
        *,
        state: FitState | None = None,
        save: Callable[[FitState], None] = lambda state: None,
        watcher: Watcher | None = None,
    ) -> FitState:
        """Train until the dev score has not risen for `patience` epochs; the network keeps the best weights."""
        watcher = watcher or Watcher()
        fit = self.settings.fit
        lengths = [sum(map(len, self.family.texts(example))) for example in train]
        optimizer = self._make_optimizer()
        state = state or FitState()
        if state.epoch:
            self.network.load_state_dict(state.weights)
            optimizer.load_state_dict(state.optimizer)
        while state.epoch < fit.num_epochs and state.epoch - state.best_epoch < fit.patience:
            state.epoch += 1
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(fit.seed * 1_000_003 + state.epoch)
                loss = self._epoch(state, train, lengths, optimizer, watcher)
            scores = self.evaluate(dev)
            self._note(state, loss, scores)
            state.weights = self._copy_weights()
            if state.best_epoch == state.epoch:
                state.best_weights = state.weights
            state.optimizer = optimizer.state_dict()
            save(state)
            watcher.on_epoch(state.history[-1])
        self.network.load_state_dict(state.best_weights)
        return state

    def absorb(self, train: Sequence[Any], dev: Sequence[Any]) -> FitState:
        """For a network that remembers instead of learning: let it see every training example once."""
        self.network.eval()
        remember = cast(Remembers, self.network).absorb
        for start in range(0, len(train), self.settings.fit.batch_size):
            remember(train[start : start + self.settings.fit.batch_size], self.batcher)
        state = FitState(epoch=1, best_epoch=1)
        scores = self.evaluate(dev)
        state.best_score = scores[self.family.metric(self.labels)]
        state.history.append({"epoch": 1, "loss": None, "dev": scores, "best": True})
        state.best_weights = state.weights = self._copy_weights()
        return state

    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """Give the prediction of each example, in their order."""
        self.network.eval()
        lengths = [sum(map(len, self.family.texts(example))) for example in examples]
        head = cast(TaskNetwork, self.network)
        return predict_all(examples, lengths, lambda part: head.predict(part, self.batcher), batch_size=64)

    def evaluate(self, examples: Sequence[Any]) -> dict[str, float]:
        """Give the scores of labelled examples."""
        return self.family.score(examples, self.predict(examples), self.labels)

    def _epoch(
        self,
        state: FitState,
        train: Sequence[Any],
        lengths: Sequence[int],
        optimizer: torch.optim.Optimizer,
        watcher: Watcher,
    ) -> float:
        fit, head = self.settings.fit, cast(TaskNetwork, self.network)
        self.network.train()
        draw = random.Random(f"{fit.seed} {state.epoch}")
        batches: list[list[int]] = []
        while len(batches) < fit.min_batches:
            batches += length_batches(lengths, fit.batch_size, draw)
        learned = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        total = 0.0
        mixes = head.encoder.mixes
        for number, batch in enumerate(batches, start=1):
            done = (state.epoch - 1 + (number - 1) / len(batches)) / fit.num_epochs if fit.cooling else 0.0
            for group in optimizer.param_groups:
                group["lr"] = group["full_rate"] * state.rate * (1 - done)
            loss = head.loss([train[index] for index in batch], self.batcher)
            total += loss.item()
            if mixes is not None and self.settings.elmo.mix_penalty:
                loss = loss + mixes.penalty(self.settings.elmo.mix_penalty)
            optimizer.zero_grad()
            if loss.requires_grad:  # a batch may have nothing to learn from
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(learned, fit.clip_norm)
                optimizer.step()
            watcher.on_batch(state.epoch, number, len(batches))
        mean = total / len(batches)
        if mean != mean:
            raise InputError(
                f"The loss is not a number in epoch {state.epoch}; lower fit.learning_rate "
                f"({fit.learning_rate}) or fit.clip_norm ({fit.clip_norm})."
            )
        return mean

    def _note(self, state: FitState, loss: float, scores: dict[str, float]) -> None:
        score = scores[self.family.metric(self.labels)]
        is_best = math.isnan(state.best_score) or score > state.best_score
        if is_best:
            state.best_score, state.best_epoch = score, state.epoch
        elif (state.epoch - state.best_epoch) % max(1, (self.settings.fit.patience + 1) // 2) == 0:
            state.rate *= RATE_CUT
        state.history.append({"epoch": state.epoch, "loss": loss, "dev": scores, "best": is_best})

    def _make_optimizer(self) -> torch.optim.Optimizer:
        fit, elmo = self.settings.fit, cast(TaskNetwork, self.network).encoder.elmo
        bilm = set(elmo.bilm.parameters()) if isinstance(elmo, ElmoLayer) else set()
        own = [p for p in self.network.parameters() if p.requires_grad and p not in bilm]
        groups: list[dict[str, Any]] = [{"params": own, "lr": fit.learning_rate, "full_rate": fit.learning_rate}]
        if bilm:
            # In the order of the module, so that a saved state fits again. The softmax is not part of the task.
            rate = self.settings.elmo.learning_rate
            tuned = [p for p in self.network.parameters() if p in bilm]
            groups.append({"params": tuned, "lr": rate, "full_rate": rate})
        return torch.optim.AdamW(groups, weight_decay=fit.weight_decay)

    def _copy_weights(self) -> Weights:
        return {name: weight.detach().clone() for name, weight in self.network.state_dict().items()}


def warn_of_unknown(family: Family, labels: Labels, examples: Sequence[Any], what: str) -> None:
    """Tell of targets that training did not have, with the place of the first: they can only be got wrong."""
    unknown = [
        (example, names) for example in examples if (names := list(family.unknown_targets(example, labels)))
    ]
    if unknown:
        first, names = unknown[0]
        logger.warning(
            "%s: %r was not among the labels in training (%d such %s examples); it counts as an error.",
            first.place, names[0], len(unknown), what,
        )  # fmt: skip
