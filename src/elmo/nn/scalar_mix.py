"""γ · Σ_j softmax(w)_j · h_j: a learned weighted average of the layers of a biLM."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError


class ScalarMix(nn.Module):
    """One weight tensor w of num_layers values and one scale γ.

    With `layer_norm`, each layer is first normalized by one mean and one variance over all values at real positions of
    the batch. With `learned=False`, w and γ are constant.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        layer_norm: bool = False,
        weights: Sequence[float] | None = None,
        learned: bool = True,
    ) -> None:
        super().__init__()
        initial = torch.zeros(num_layers) if weights is None else torch.tensor(weights, dtype=torch.float32)
        if initial.shape != (num_layers,):
            raise ConfigError(
                f"{initial.numel()} mixing weights were given for {num_layers} layers; give one for each."
            )
        self.layer_norm = layer_norm
        self.epsilon = 1e-12
        self.weights = nn.Parameter(initial, requires_grad=learned)
        self.gamma = nn.Parameter(torch.tensor(1.0), requires_grad=learned)

    def normalized_weights(self) -> Tensor:
        """Return s_j, the share of each layer; the sum is 1."""
        return torch.softmax(self.weights, dim=0)

    def squared_norm(self) -> Tensor:
        """Return ‖w‖² of the raw weights, for the L2 penalty of the paper."""
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
