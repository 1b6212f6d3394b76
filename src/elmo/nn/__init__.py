"""Tensors in, tensors out: no files, no text, no configuration objects."""

import torch
from torch import Tensor, nn


def draw_normal(tensor: Tensor, std: float) -> None:
    """Fill with N(0, std²), except on the meta device, where torch would first import a compiler for seconds."""
    if not tensor.is_meta:
        nn.init.normal_(tensor, std=std)


def make_embedding(num_rows: int, dim: int) -> nn.Embedding:
    """Return an embedding that is still to be filled."""
    embedding: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        torch.empty(num_rows, dim), freeze=False
    )
    return embedding


def make_linear(input_dim: int, output_dim: int, *, bias: float = 0.0) -> nn.Linear:
    """Return a linear map with weights N(0, 1/inputs) and one value in the bias."""
    linear = nn.Linear(input_dim, output_dim)
    draw_normal(linear.weight, input_dim**-0.5)
    nn.init.constant_(linear.bias, bias)
    return linear
