"""One update of the weights; the only place where the optimizer steps."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from elmo.errors import ElmoError
from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.gradients import average_sparse, clip_gradients
from elmo.pretrain.lessons import Lesson
from elmo.pretrain.objective import WindowLoss
from elmo.pretrain.optimizer import rate_at
from elmo.pretrain.settings import TrainSettings
from elmo.pretrain.stream import LMBatch, Position
from elmo.pretrain.teacher_heads import TeacherHeads


class DivergedError(ElmoError):
    """The loss is no number any more; the last good checkpoint is untouched."""


@dataclass
class TrainState:
    """What training changes: all of it is saved and restored."""

    bilm: BiLM
    objective: nn.Module  # Objective, or the same behind DistributedDataParallel
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    bilm_state: BiLMState
    position: Position
    num_updates: int  # done so far
    num_words: int  # read so far, by all processes
    heads: TeacherHeads | None = None  # what predicts a teacher's vectors


@dataclass(frozen=True)
class StepReport:
    """What one update saw. Losses are per word, and sampled unless the settings say otherwise."""

    update: int
    left_to_right_loss: float
    right_to_left_loss: float
    gradient_norm: float
    learning_rate: float
    num_words: int
    teacher_cosine: float | None = None  # with the vectors that a teacher gave the words of this update


def train_step(
    state: TrainState, batches: Iterator[LMBatch], settings: TrainSettings, *, num_updates: int, num_words: int
) -> StepReport:
    """Read windows_per_update windows and change the weights once.

    Everything random is drawn from the seed and the number of the update, so a resumed run draws the same.
    """
    update, rank = state.num_updates, dist.get_rank() if dist.is_initialized() else 0
    torch.manual_seed(_mix(settings.seed, update, rank + 1))
    device = state.parameters[0].device
    for group in state.optimizer.param_groups:
        group["lr"] = rate_at(update, num_updates, settings.optimizer)
    state.optimizer.zero_grad(set_to_none=True)
    # Left to right, right to left, 1 - cosine with the teacher; words read, words taught.
    losses = torch.zeros(5, dtype=torch.float64, device=device)
    for window in range(settings.windows_per_update):
        batch = next(batches).to(device)
        samples = None
        if settings.num_samples:
            generator = torch.Generator().manual_seed(_mix(settings.seed, update, 0) + window)
            samples = NegativeSamples(settings.num_samples, num_words, generator).to(device)
        is_last = window + 1 == settings.windows_per_update
        with _apart(state.objective) if not is_last else contextlib.nullcontext():
            result: WindowLoss = state.objective(batch, state.bilm_state, samples)
            lesson = batch.lesson
            loss = (result.left_to_right + result.right_to_left) / (2 * _words_per_process(batch))
            taught = loss.new_zeros(())
            cosine_weight, relations_weight = _teach_weights(lesson, settings)
            if result.teacher is not None:
                loss = loss + cosine_weight * result.teacher
                taught = result.teacher.detach()
            if result.relations is not None:
                loss = loss + relations_weight * result.relations
            num_taught = 0 if lesson is None else lesson.places.shape[1]
            prediction = None if lesson is None else lesson.prediction
            num_read = batch.num_words + (0 if prediction is None else prediction.places.shape[1])
            (loss * settings.num_steps / settings.windows_per_update).backward()  # type: ignore[no-untyped-call]
        state.bilm_state, state.position = result.state, batch.position
        summed = [result.left_to_right.detach(), result.right_to_left.detach(), taught]
        losses += torch.stack([*summed, *loss.new_tensor([num_read, num_taught])])
    if dist.is_initialized():
        dist.all_reduce(losses)
    average_sparse(state.parameters)
    norm = clip_gradients(state.parameters, settings.optimizer.clip_norm)
    left_to_right, right_to_left, taught_loss, words, taught_words = losses.tolist()
    if not math.isfinite(left_to_right + right_to_left + norm):
        raise DivergedError(
            f"The loss or its gradient is not a number at update {update + 1}; the last checkpoint is good, so "
            "start a new run from it, by --init, or from nothing, with a lower optimizer.learning_rate."
        )
    state.optimizer.step()
    state.num_updates += 1
    state.num_words += int(words)
    rate = state.optimizer.param_groups[0]["lr"]
    return StepReport(
        state.num_updates,
        left_to_right / words,
        right_to_left / words,
        norm,
        rate,
        state.num_words,
        1 - taught_loss / taught_words if taught_words else None,
    )


def _apart(objective: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Let gradients add up in this process: those of all processes meet once an update."""
    if isinstance(objective, DistributedDataParallel):
        return objective.no_sync()
    return contextlib.nullcontext()


def _words_per_process(batch: LMBatch) -> float:
    """Give how many words are predicted, a process: windows are alike in all of them, lessons are not."""
    if batch.lesson is None or batch.lesson.prediction is None:
        return batch.num_words
    return batch.num_words + batch.lesson.prediction.num_words / _num_processes()


def _num_processes() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _teach_weights(lesson: Lesson | None, settings: TrainSettings) -> tuple[float, float]:
    """Give the weights of one word's cosine and relations.

    Gradients are averaged over processes, words are those of all.
    """
    if lesson is None or settings.teacher is None:
        return 0.0, 0.0
    share = _num_processes() / lesson.num_words
    return settings.teacher.weight * share, settings.teacher.relations * share


def _mix(*numbers: int) -> int:
    """Give one seed for several numbers."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**62)
    return mixed
