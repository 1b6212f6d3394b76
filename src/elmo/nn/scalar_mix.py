"""γ · Σ_j softmax(w)_j · h_j: the layers of a biLM become one vector per word, learned by the task."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError

LAYER_NORM_EPSILON = 1e-12


class ScalarMix(nn.Module):
    """One weight tensor w of num_layers values and one scale γ.

    With `layer_norm`, each layer is first shifted and scaled by one mean and one variance, taken over all
    values at real positions of the batch. `learned=False` keeps w and γ as they are.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        layer_norm: bool = False,
        weights: Sequence[float] | None = None,
        gamma: float = 1.0,
        learned: bool = True,
        epsilon: float = LAYER_NORM_EPSILON,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ConfigError(f"num_layers is {num_layers}; there must be at least one layer to mix.")
        initial = torch.zeros(num_layers) if weights is None else torch.tensor(weights, dtype=torch.float32)
        if initial.shape != (num_layers,):
            raise ConfigError(
                f"{initial.numel()} mixing weights were given for {num_layers} layers; give one for each."
            )
        self.layer_norm = layer_norm
        self.epsilon = epsilon
        self.weights = nn.Parameter(initial, requires_grad=learned)
        self.gamma = nn.Parameter(torch.tensor(float(gamma)), requires_grad=learned)

    def normalized_weights(self) -> Tensor:
        """s_j: what each layer counts; they sum to 1."""
        return torch.softmax(self.weights, dim=0)

    def squared_norm(self) -> Tensor:
        """‖w‖², of the raw weights: what the L2 penalty of the paper is put on."""
        return self.weights.square().sum()

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """(L+1, B, T, 2D) and (B, T) -> (B, T, 2D)."""
        if self.layer_norm:
            layers = self._normalize(layers, mask)
        mixed: Tensor = torch.tensordot(self.normalized_weights(), layers, dims=1)
        return self.gamma * mixed

    def _normalize(self, layers: Tensor, mask: Tensor) -> Tensor:
        real = mask[None, :, :, None].to(layers.dtype)  # (1, B, T, 1)
        num_values = (real.sum() * layers.shape[-1]).clamp(min=1)
        mean = (layers * real).sum(dim=(1, 2, 3), keepdim=True) / num_values
        variance = ((layers - mean) * real).square().sum(dim=(1, 2, 3), keepdim=True) / num_values
        return (layers - mean) * torch.rsqrt(variance + self.epsilon)
