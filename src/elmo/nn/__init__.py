"""Modules with gradients. They take tensors, not files, text or configurations (except in build.py)."""

import torch
from torch import Tensor, nn


def draw_normal(tensor: Tensor, std: float) -> None:
    """Fill a tensor with N(0, std²), except on the meta device, where torch would import a compiler (seconds)."""
    if not tensor.is_meta:
        nn.init.normal_(tensor, std=std)


def make_embedding(num_rows: int, dim: int) -> nn.Embedding:
    """Return an embedding without initializing it."""
    embedding: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        torch.empty(num_rows, dim), freeze=False
    )
    return embedding


def make_linear(input_dim: int, output_dim: int, *, bias: float = 0.0) -> nn.Linear:
    """Return a linear layer with weights N(0, 1/input_dim) and a constant bias."""
    linear = nn.Linear(input_dim, output_dim)
    draw_normal(linear.weight, input_dim**-0.5)
    nn.init.constant_(linear.bias, bias)
    return linear
