"""One update of the weights: the loss of a window, its gradients, and the step of the optimizer.

The loss is that of predicting the next word and the previous one, plus that of the auxiliary objective.
The learning rate and all random numbers depend only on the seed and the number of the update, so resuming is exact.
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
from elmo.pretrain.auxiliary import AuxiliaryObjective, SentenceBatch
from elmo.pretrain.distributed import Processes
from elmo.pretrain.settings import OptimizerSettings, TrainSettings
from elmo.pretrain.stream import LMBatch, Position, to_device

INITIAL_ACCUMULATOR = 1.0
FINAL_RATE_SHARE = 0.1  # of the learning rate, after cosine decay


@dataclass(frozen=True)
class WindowLoss:
    """The losses of a window and of the batch of sentences that goes with it."""

    left_to_right: Tensor  # of the language model, summed over the predictions
    right_to_left: Tensor
    auxiliary: Tensor  # weighted
    metrics: Tensor  # (M, 2): sum and number of the values of each metric of the auxiliary objective
    state: BiLMState  # after the window


class Objective(nn.Module):
    """The biLM with its training loss, and the auxiliary objective; dropout is only applied while training."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        dropout: float,
        product_dtype: torch.dtype = torch.float32,
        auxiliary: AuxiliaryObjective | None = None,
    ) -> None:
        """`product_dtype` is that of matrix multiplications."""
        super().__init__()
        self.bilm, self.auxiliary = bilm, auxiliary or AuxiliaryObjective()
        self.dropout, self.product_dtype = dropout, product_dtype

    def forward(
        self,
        batch: LMBatch,
        state: BiLMState,
        samples: NegativeSamples | None,
        sentences: SentenceBatch | None = None,
    ) -> WindowLoss:
        """Return the losses of a window, against sampled words or, without samples, the whole vocabulary.

        `sentences` is a batch of the auxiliary objective.
        """
        sides, end = self._run(batch, state)
        auxiliary, metrics = batch.keep.new_zeros(()), batch.keep.new_zeros(0, 2)
        if sentences is not None:
            auxiliary, metrics = self.auxiliary(self.encode_sentences(sentences), sentences.targets)
        left_to_right, right_to_left = (
            self._predict(direction, sides[direction][-1].flatten(0, 1), batch.targets[direction].flatten(), samples)
            for direction in range(2)
        )
        return WindowLoss(left_to_right, right_to_left, auxiliary, metrics, end)

    def encode_sentences(self, batch: SentenceBatch) -> Tensor:
        """Return the layers of the words of whole sentences, (L+1, N, 2D)."""
        layers, _ = self._run(batch, self.bilm.zero_state(batch.keep.shape[1]))
        sides = [torch.stack(side).flatten(1, 2) for side in layers]  # (L+1, T·B, D)
        words = [side[:, positions] for side, positions in zip(sides, batch.word_positions, strict=True)]
        return torch.cat(words, dim=-1).float()

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

    def _predict(self, direction: int, top: Tensor, targets: Tensor, samples: NegativeSamples | None) -> Tensor:
        """Return the loss of one direction, summed over its states (N, D)."""
        assert self.bilm.softmaxes is not None
        softmax = self.bilm.softmaxes[direction]
        states = F.dropout(top, self.dropout, training=self.training)
        if samples is None:
            return softmax.loss(states, targets)
        return softmax.sampled_loss(states.to(self.product_dtype), targets, samples)


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
    auxiliary: Mapping[str, float]  # metrics of the auxiliary objective

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
    """Take a window and update the weights once; `num_words` is the size of the vocabulary."""
    update, processes, parameters = state.num_updates, state.processes, state.parameters
    torch.manual_seed(_mix_seed(settings.seed, update, processes.rank + 1))
    for group in state.optimizer.param_groups:
        group["lr"] = rate_at(update, num_updates, settings.optimizer)
    state.optimizer.zero_grad(set_to_none=True)
    batch, sentences = next(batches)
    batch = to_device(batch, processes.device)
    sentences = None if sentences is None else to_device(sentences, processes.device)
    samples = None
    if settings.num_samples:
        generator = torch.Generator().manual_seed(_mix_seed(settings.seed, update, 0))
        samples = NegativeSamples(settings.num_samples, num_words, generator).to(processes.device)
    result: WindowLoss = state.objective(batch, state.bilm_state, samples, sentences)
    loss = (result.left_to_right + result.right_to_left) / batch.targets.numel() + result.auxiliary
    (loss * settings.num_steps).backward()  # type: ignore[no-untyped-call]
    state.bilm_state, state.position = result.state, batch.position
    losses = torch.stack([result.left_to_right, result.right_to_left]).detach()
    sums = torch.cat([losses, result.metrics.flatten()]).double()
    processes.add(sums)
    processes.combine_gradients(parameters)
    norm = clip_gradients(parameters, settings.optimizer.clip_norm)
    left_to_right, right_to_left = sums[:2].tolist()
    if not math.isfinite(left_to_right + right_to_left + norm):
        raise ElmoError(
            f"The loss or its gradient is not a number at update {update + 1}; the last checkpoint is good, so "
            "start a new run from it with --init, or from scratch, with a lower optimizer.learning_rate."
        )
    state.optimizer.step()
    words_per_update = settings.num_rows * settings.num_steps
    state.num_updates += 1
    state.num_words += words_per_update
    # Updates without a batch of sentences have no metrics.
    metrics = zip(state.objective.auxiliary.metrics, sums[2:].view(-1, 2).tolist(), strict=False)
    return StepReport(
        update=state.num_updates,
        left_to_right_loss=left_to_right / words_per_update,
        right_to_left_loss=right_to_left / words_per_update,
        gradient_norm=norm,
        learning_rate=state.optimizer.param_groups[0]["lr"],
        num_words=state.num_words,
        auxiliary={name: total / count for name, (total, count) in metrics},
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
    rate = settings.learning_rate * min(1.0, (num_updates - update) / (settings.linear_decay_steps + 1))
    if settings.decay == "none":
        return rate
    progress = (update - settings.warmup_steps) / (num_updates - settings.warmup_steps)
    return rate * (FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * (1 + math.cos(math.pi * progress)) / 2)


def _mix_seed(*numbers: int) -> int:
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**62)
    return mixed
