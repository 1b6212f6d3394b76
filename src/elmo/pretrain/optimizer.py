"""The optimizer of a run and its learning rate at each update; the rate is a function of the update alone."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from elmo.pretrain.settings import OptimizerSettings

INITIAL_ACCUMULATOR = 1.0
FINAL_RATE_SHARE = 0.1


def build_optimizer(parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Make Adagrad as bilm-tf has it, or AdamW."""
    if settings.kind == "adagrad":
        # Adagrad makes sparse tensors out of rows known to be good; torch asks for a word on checking them.
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
        return torch.optim.Adagrad(
            parameters, lr=settings.learning_rate, initial_accumulator_value=INITIAL_ACCUMULATOR
        )
    return torch.optim.AdamW(
        parameters, lr=settings.learning_rate, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
    )


def rate_at(update: int, num_updates: int, settings: OptimizerSettings) -> float:
    """Give the learning rate of an update, counted from 0, in a run of num_updates."""
    if update < settings.warmup_steps:
        return settings.learning_rate * (update + 1) / settings.warmup_steps
    rate = settings.learning_rate * min(1.0, (num_updates - update) / (settings.cooldown_steps + 1))
    if settings.decay == "none":
        return rate
    done = (update - settings.warmup_steps) / max(1, num_updates - settings.warmup_steps)
    share = FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * (1 + math.cos(math.pi * min(1.0, done))) / 2
    return rate * share
