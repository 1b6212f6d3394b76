"""One update of the weights: the loss of a window of packed rows, its gradients, the only step of the optimizer.

The loss is that of predicting the next word and the previous one, plus that of the auxiliary task.
The learning rate and everything random are functions of the number of the update alone, so that resuming is exact.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import ElmoError
from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.auxiliary import AuxiliaryTask, SentenceBatch
from elmo.pretrain.distributed import Processes
from elmo.pretrain.settings import OptimizerSettings, TrainSettings
from elmo.pretrain.stream import LMBatch, Position, to_device

INITIAL_ACCUMULATOR = 1.0
FINAL_RATE_SHARE = 0.1  # of the rate, after a decay


class DivergedError(ElmoError):
    """The loss is no longer a number; the last good checkpoint is untouched."""


@dataclass(frozen=True)
class WindowLoss:
    """Losses of the language model, summed over the predictions of a window and of its auxiliary batch."""

    left_to_right: Tensor
    right_to_left: Tensor
    state: BiLMState  # after the window
    auxiliary: Tensor  # the weighted loss of the auxiliary task
    totals: Tensor  # (M, 2): sum and number of the values of each of its metrics


class Objective(nn.Module):
    """The biLM with its training loss and that of an auxiliary task; dropout only while training."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        dropout: float,
        product_dtype: torch.dtype = torch.float32,
        auxiliary: AuxiliaryTask | None = None,
    ) -> None:
        """`product_dtype` is that of matrix multiplications."""
        super().__init__()
        self.bilm, self.auxiliary = bilm, AuxiliaryTask() if auxiliary is None else auxiliary
        self.dropout, self.product_dtype = dropout, product_dtype

    def forward(
        self,
        batch: LMBatch,
        state: BiLMState,
        samples: NegativeSamples | None,
        sentences: SentenceBatch | None = None,
    ) -> WindowLoss:
        """Return the losses of a window, against sampled words or, without samples, the whole vocabulary.

        `sentences` is the batch of the auxiliary task.
        """
        layers, end = self._run(batch, state)
        tops = [side[-1].flatten(0, 1) for side in layers]  # (T·B, D)
        targets = [*batch.targets.flatten(1)]
        auxiliary = torch.zeros((), device=batch.word_index.device)
        totals = torch.zeros(len(self.auxiliary.metrics), 2, dtype=torch.float64, device=batch.word_index.device)
        if sentences is not None:
            sides, words = self._run_sentences(sentences)
            auxiliary, totals = self.auxiliary(words, sentences.teacher)
            for direction, positions in enumerate(sentences.predicting):
                tops[direction] = torch.cat([tops[direction], sides[direction][-1, positions]])
                targets[direction] = torch.cat([targets[direction], sentences.targets[direction]])
        losses = self._predict(tops, targets, samples)
        return WindowLoss(losses[0], losses[1], end, auxiliary, totals)

    def encode_sentences(self, batch: SentenceBatch) -> Tensor:
        """Return the layers of the words of whole sentences, (L+1, N, 2D)."""
        return self._run_sentences(batch)[1]

    def _run_sentences(self, batch: SentenceBatch) -> tuple[list[Tensor], Tensor]:
        """Return the layers of each direction, (L+1, T·B, D), and of the words, (L+1, N, 2D)."""
        layers, _ = self._run(batch, self.bilm.zero_state(batch.keep.shape[1]))
        sides = [torch.stack(side).flatten(1, 2) for side in layers]
        words = [side[:, positions] for side, positions in zip(sides, batch.word_positions, strict=True)]
        return sides, torch.cat(words, dim=-1).float()

    def _run(self, batch: LMBatch | SentenceBatch, state: BiLMState) -> tuple[list[list[Tensor]], BiLMState]:
        """Return each direction's layers, word vectors first, (T, B, D) each, and the state after them."""
        is_mixed = self.product_dtype != torch.float32
        stacks = (self.bilm.left_to_right, self.bilm.right_to_left)
        starts = (state.left_to_right, state.right_to_left)
        dropout = self.dropout if self.training else 0.0
        sides, ends = [], []
        with torch.autocast(batch.word_index.device.type, self.product_dtype, enabled=is_mixed):
            distinct = self.bilm.tokens(batch.char_ids, batch.word_ids).float()
            for stack, start, index in zip(stacks, starts, batch.word_index, strict=True):
                words = F.embedding(index, distinct)
                layers, end = stack(words.transpose(0, 1), start, keep=batch.keep.t(), dropout=dropout)
                sides.append([words, *(layer.transpose(0, 1) for layer in layers)])
                ends.append(end.map(Tensor.detach))
        return sides, BiLMState(ends[0], ends[1])

    def _predict(self, tops: list[Tensor], targets: list[Tensor], samples: NegativeSamples | None) -> list[Tensor]:
        """Return the loss of each direction, summed over its states (N, D)."""
        assert self.bilm.softmaxes is not None
        losses = []
        for softmax, top, target in zip(self.bilm.softmaxes, tops, targets, strict=True):
            states = F.dropout(top, self.dropout, training=self.training)
            if samples is None:
                losses.append(softmax.loss(states, target))
            else:
                losses.append(softmax.sampled_loss(states.to(self.product_dtype), target, samples))
        return losses


@dataclass
class TrainState:
    """The state of training; all but `processes` is saved and loaded."""

    objective: Objective
    optimizer: torch.optim.Optimizer
    bilm_state: BiLMState
    position: Position
    processes: Processes
    num_updates: int = 0  # so far
    num_words: int = 0  # so far, in all processes

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The weights that are trained."""
        return list(self.objective.parameters())


@dataclass(frozen=True)
class StepReport:
    """The measurements of one update. Losses are per word, and sampled unless num_samples is 0."""

    update: int
    left_to_right_loss: float
    right_to_left_loss: float
    gradient_norm: float
    learning_rate: float
    num_words: int
    auxiliary: Mapping[str, float]  # the metrics of the auxiliary task

    def describe(self, *, sampled: bool) -> dict[str, float]:
        """Return the values for the metrics; a sampled loss is not comparable with one of the full softmax."""
        kind = "sampled" if sampled else "full"
        return {
            f"left_to_right_{kind}_loss": self.left_to_right_loss,
            f"right_to_left_{kind}_loss": self.right_to_left_loss,
            "gradient_norm": self.gradient_norm,
            "learning_rate": self.learning_rate,
            "num_words": self.num_words,
            **self.auxiliary,
        }


def train_step(
    state: TrainState,
    batches: Iterator[tuple[LMBatch, SentenceBatch | None]],
    settings: TrainSettings,
    *,
    num_updates: int,
    num_words: int,
) -> StepReport:
    """Take windows_per_update windows and update the weights once; `num_words` is the size of the vocabulary."""
    update, processes = state.num_updates, state.processes
    torch.manual_seed(_mix_seed(settings.seed, update, processes.rank + 1))
    parameters, metrics = state.parameters, state.objective.auxiliary.metrics
    device = parameters[0].device
    for group in state.optimizer.param_groups:
        group["lr"] = rate_at(update, num_updates, settings.optimizer)
    state.optimizer.zero_grad(set_to_none=True)
    # Losses left to right and right to left, words, then the sum and the number of each metric.
    sums = torch.zeros(3 + 2 * len(metrics), dtype=torch.float64, device=device)
    for window in range(settings.windows_per_update):
        batch, sentences = next(batches)
        batch, sentences = to_device(batch, device), None if sentences is None else to_device(sentences, device)
        samples = None
        if settings.num_samples:
            generator = torch.Generator().manual_seed(_mix_seed(settings.seed, update, 0) + window)
            samples = NegativeSamples(settings.num_samples, num_words, generator).to(device)
        num_predicted = batch.num_words + (0 if sentences is None else sentences.predicting.shape[1])
        result: WindowLoss = state.objective(batch, state.bilm_state, samples, sentences)
        loss = (result.left_to_right + result.right_to_left) / (2 * num_predicted) + result.auxiliary
        (loss * settings.num_steps / settings.windows_per_update).backward()  # type: ignore[no-untyped-call]
        state.bilm_state, state.position = result.state, batch.position
        losses = [result.left_to_right.detach(), result.right_to_left.detach(), loss.new_tensor(num_predicted)]
        sums += torch.cat([torch.stack(losses), result.totals.flatten()])
    processes.add(sums)
    processes.combine_gradients(parameters)
    norm = clip_gradients(parameters, settings.optimizer.clip_norm)
    left_to_right, right_to_left, words, *totals = sums.tolist()
    if not math.isfinite(left_to_right + right_to_left + norm):
        raise DivergedError(
            f"The loss or its gradient is not a number at update {update + 1}; the last checkpoint is good, so "
            "start a new run from it with --init, or from scratch, with a lower optimizer.learning_rate."
        )
    state.optimizer.step()
    state.num_updates += 1
    state.num_words += int(words)
    values = zip(metrics, totals[::2], totals[1::2], strict=True)
    return StepReport(
        update=state.num_updates,
        left_to_right_loss=left_to_right / words,
        right_to_left_loss=right_to_left / words,
        gradient_norm=norm,
        learning_rate=state.optimizer.param_groups[0]["lr"],
        num_words=state.num_words,
        auxiliary={name: total / count for name, total, count in values if count},
    )


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients down if their common norm is above `max_norm`; return the norm before."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    values = [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]
    norm = float(nn.utils.get_total_norm(values))
    if norm > max_norm:
        torch._foreach_mul_(values, max_norm / norm)
    return norm


def build_optimizer(parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build Adagrad as in bilm-tf, or AdamW."""
    if settings.kind == "adagrad":
        # Adagrad builds sparse tensors from valid rows; unless this is stated, torch warns about the check.
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
        return torch.optim.Adagrad(parameters, lr=settings.learning_rate, initial_accumulator_value=INITIAL_ACCUMULATOR)
    return torch.optim.AdamW(
        parameters, lr=settings.learning_rate, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
    )


def rate_at(update: int, num_updates: int, settings: OptimizerSettings) -> float:
    """Return the learning rate of an update, counted from 0, in a run of num_updates."""
    if update < settings.warmup_steps:
        return settings.learning_rate * (update + 1) / settings.warmup_steps
    rate = settings.learning_rate * min(1.0, (num_updates - update) / (settings.cooldown_steps + 1))
    if settings.decay == "none":
        return rate
    done = (update - settings.warmup_steps) / max(1, num_updates - settings.warmup_steps)
    share = FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * (1 + math.cos(math.pi * min(1.0, done))) / 2
    return rate * share


def _mix_seed(*numbers: int) -> int:
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**62)
    return mixed
