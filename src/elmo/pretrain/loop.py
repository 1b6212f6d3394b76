"""One update of the weights: gradients accumulated, averaged, clipped; the only place where the optimizer steps.

The learning rate and everything random are functions of the number of the update alone, so that resuming is exact.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from elmo.errors import ElmoError
from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.context import ContextHead
from elmo.pretrain.distillation import TeacherHeads
from elmo.pretrain.distributed import average_sparse
from elmo.pretrain.objective import WindowLoss
from elmo.pretrain.settings import OptimizerSettings, TrainSettings
from elmo.pretrain.stream import LMBatch, Position, move

INITIAL_ACCUMULATOR = 1.0
FINAL_RATE_SHARE = 0.1  # of the rate, after a decay


class DivergedError(ElmoError):
    """The loss is no longer a number; the last good checkpoint is untouched."""


@dataclass
class TrainState:
    """What training changes; all of it is saved and loaded."""

    bilm: BiLM
    objective: nn.Module  # Objective, or the same wrapped in DistributedDataParallel
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    bilm_state: BiLMState
    position: Position
    num_updates: int  # so far
    num_words: int  # read so far, by all processes
    heads: TeacherHeads | None = None  # predict a teacher's vectors
    context_head: ContextHead | None = None  # predicts what surrounds a word
    context_fingerprint: str = ""  # of the vectors that it predicts


@dataclass(frozen=True)
class StepReport:
    """What one update measured. Losses are per word, and sampled unless num_samples is 0."""

    update: int
    left_to_right_loss: float
    right_to_left_loss: float
    gradient_norm: float
    learning_rate: float
    num_words: int
    cosines: Mapping[str, float] = field(default_factory=dict)  # teacher_cosine, context_cosine


def train_step(
    state: TrainState, batches: Iterator[LMBatch], settings: TrainSettings, *, num_updates: int, num_words: int
) -> StepReport:
    """Read windows_per_update windows and update the weights once; `num_words` is the size of the vocabulary."""
    update, rank = state.num_updates, dist.get_rank() if dist.is_initialized() else 0
    torch.manual_seed(_mix_seed(settings.seed, update, rank + 1))
    device = state.parameters[0].device
    for group in state.optimizer.param_groups:
        group["lr"] = rate_at(update, num_updates, settings.optimizer)
    state.optimizer.zero_grad(set_to_none=True)
    # Losses: left to right, right to left, teacher, context; words: read, taught, with a context to predict.
    sums = torch.zeros(7, dtype=torch.float64, device=device)
    for window in range(settings.windows_per_update):
        batch = move(next(batches), device)
        samples = None
        if settings.num_samples:
            generator = torch.Generator().manual_seed(_mix_seed(settings.seed, update, 0) + window)
            samples = NegativeSamples(settings.num_samples, num_words, generator).to(device)
        is_last = window + 1 == settings.windows_per_update
        with _no_sync(state.objective) if not is_last else contextlib.nullcontext():
            result: WindowLoss = state.objective(batch, state.bilm_state, samples)
            loss = _weigh(result, batch, settings)
            (loss * settings.num_steps / settings.windows_per_update).backward()  # type: ignore[no-untyped-call]
        state.bilm_state, state.position = result.state, batch.position
        lesson = batch.lesson
        taught, context = (
            loss.new_zeros(()) if each is None else each.detach() for each in (result.teacher, result.context)
        )
        num_read = batch.num_words + (0 if lesson is None else lesson.predicting.shape[1])
        num_taught = 0 if lesson is None else lesson.places.shape[1]
        num_context = 0 if batch.context is None else len(batch.context.vectors)
        summed = [result.left_to_right.detach(), result.right_to_left.detach(), taught, context]
        sums += torch.stack([*summed, *loss.new_tensor([num_read, num_taught, num_context])])
    if dist.is_initialized():
        dist.all_reduce(sums)
    average_sparse(state.parameters)
    norm = clip_gradients(state.parameters, settings.optimizer.clip_norm)
    left_to_right, right_to_left, taught_loss, context_loss, words, taught_words, context_words = sums.tolist()
    cosines = {}
    if taught_words:
        cosines["teacher_cosine"] = 1 - taught_loss / taught_words
    if context_words:
        cosines["context_cosine"] = 1 - context_loss / context_words
    if not math.isfinite(left_to_right + right_to_left + norm):
        raise DivergedError(
            f"The loss or its gradient is not a number at update {update + 1}; the last checkpoint is good, so "
            "start a new run from it with --init, or from scratch, with a lower optimizer.learning_rate."
        )
    state.optimizer.step()
    state.num_updates += 1
    state.num_words += int(words)
    return StepReport(
        update=state.num_updates,
        left_to_right_loss=left_to_right / words,
        right_to_left_loss=right_to_left / words,
        gradient_norm=norm,
        learning_rate=state.optimizer.param_groups[0]["lr"],
        num_words=state.num_words,
        cosines=cosines,
    )


def _weigh(result: WindowLoss, batch: LMBatch, settings: TrainSettings) -> torch.Tensor:
    """Return the loss of a window in this process; gradients are averaged over processes.

    Windows have the same number of words in all processes; the words of lessons and those with a context to
    predict are counted over all processes.
    """
    lesson, teacher = batch.lesson, settings.teacher
    num_processes = dist.get_world_size() if dist.is_initialized() else 1
    num_words = batch.num_words + (0 if lesson is None else lesson.num_predicted / num_processes)
    loss = (result.left_to_right + result.right_to_left) / (2 * num_words)
    share = 0.0 if lesson is None else num_processes / lesson.num_words
    if teacher is not None and result.teacher is not None:
        loss = loss + teacher.weight * share * result.teacher
    if teacher is not None and result.relations is not None:
        loss = loss + teacher.relations * share * result.relations
    if settings.context is not None and result.context is not None:
        num_targets = torch.tensor(0 if batch.context is None else len(batch.context.vectors), device=loss.device)
        if dist.is_initialized():
            dist.all_reduce(num_targets)
        loss = loss + settings.context.weight * num_processes / max(1, int(num_targets)) * result.context
    return loss


def _no_sync(objective: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Accumulate gradients in this process only: processes average theirs once per update."""
    if isinstance(objective, DistributedDataParallel):
        return objective.no_sync()
    return contextlib.nullcontext()


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
        return torch.optim.Adagrad(
            parameters, lr=settings.learning_rate, initial_accumulator_value=INITIAL_ACCUMULATOR
        )
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
