"""One update of the weights; the only place where the optimizer steps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from elmo.errors import ElmoError
from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.objective import WindowLoss
from elmo.pretrain.optimizer import rate_at
from elmo.pretrain.settings import TrainSettings
from elmo.pretrain.stream import LMBatch, Position


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


@dataclass(frozen=True)
class StepReport:
    """What one update saw. Losses are per word, and sampled unless the settings say otherwise."""

    update: int
    left_to_right_loss: float
    right_to_left_loss: float
    gradient_norm: float
    learning_rate: float
    num_words: int


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
    losses = torch.zeros(3, dtype=torch.float64, device=device)  # left to right, right to left, words
    for window in range(settings.windows_per_update):
        batch = next(batches).to(device)
        samples = None
        if settings.num_samples:
            generator = torch.Generator().manual_seed(_mix(settings.seed, update, 0) + window)
            samples = NegativeSamples(settings.num_samples, num_words, generator).to(device)
        result: WindowLoss = state.objective(batch, state.bilm_state, samples)
        loss = (result.left_to_right + result.right_to_left) / (2 * batch.num_words)
        (loss * settings.num_steps / settings.windows_per_update).backward()  # type: ignore[no-untyped-call]
        state.bilm_state, state.position = result.state, batch.position
        losses += torch.stack(
            [result.left_to_right.detach(), result.right_to_left.detach(), loss.new_tensor(batch.num_words)]
        )
    if dist.is_initialized():
        dist.all_reduce(losses)
    norm = float(nn.utils.clip_grad_norm_(state.parameters, settings.optimizer.clip_norm))
    left_to_right, right_to_left, words = losses.tolist()
    if not math.isfinite(left_to_right + right_to_left + norm):
        raise DivergedError(
            f"The loss or its gradient is not a number at update {update + 1}; the last checkpoint is good, so "
            "resume from it with a lower learning rate."
        )
    state.optimizer.step()
    state.num_updates += 1
    state.num_words += int(words)
    rate = state.optimizer.param_groups[0]["lr"]
    return StepReport(state.num_updates, left_to_right / words, right_to_left / words, norm, rate, state.num_words)


def _mix(*numbers: int) -> int:
    """Give one seed for several numbers."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**62)
    return mixed
