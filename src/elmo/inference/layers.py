"""What a caller wants of the L+1 layers: average, top, all, concat, one by number, or a weighting."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.errors import InputError

LayerName: TypeAlias = Literal["average", "top", "all", "concat"]
Layers: TypeAlias = LayerName | int | Sequence[float] | npt.NDArray[np.floating[Any]]
Choice: TypeAlias = Callable[[Tensor], Tensor]


def choose_layers(layers: Layers, num_layers: int) -> Choice:
    """Give the function from (L+1, ...) to what was asked for; `all` keeps the layers as the first axis."""
    if isinstance(layers, str):
        named: dict[str, Choice] = {
            "average": lambda states: states.mean(dim=0),
            "top": lambda states: states[-1],
            "all": lambda states: states,
            "concat": lambda states: torch.cat(list(states), dim=-1),
        }
        if layers in named:
            return named[layers]
    elif isinstance(layers, int | np.integer):
        if not isinstance(layers, bool) and -num_layers <= layers < num_layers:
            number = int(layers)
            return lambda states: states[number]
    elif isinstance(layers, Sequence | np.ndarray):
        return _weigh(layers, num_layers)
    raise InputError(
        f"layers is {layers!r:.60}; give 'average', 'top', 'all', 'concat', a number from 0 to {num_layers - 1}, "
        f"or {num_layers} weights."
    )


def _weigh(layers: Layers, num_layers: int) -> Choice:
    try:
        weights = torch.as_tensor(layers, dtype=torch.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"layers is {layers!r:.60}; its weights must be numbers.") from error
    if weights.shape != (num_layers,):
        raise InputError(
            f"layers has weights of shape {tuple(weights.shape)}, but this model has {num_layers} layers; give "
            "one number for each."
        )
    if not torch.isfinite(weights).all():
        raise InputError(f"layers is {layers!r:.60}; its weights must be finite numbers.")
    return lambda states: torch.tensordot(weights.to(states.device), states, dims=1)
