"""Character ids of distinct words -> features: embedding, convolutions with max-pooling, highways."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from elmo.kernels.characters import CharTable, count_before_padding, fits_table
from elmo.kernels.library import Library, find_library
from elmo.nn import draw_normal, make_embedding, make_linear
from elmo.nn.kernels import pool_characters, pool_characters_backward

INITIAL_GATE_BIAS = -2.0  # a new highway layer carries most of its input through
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """y = g · relu(transform(x)) + (1 - g) · x  with  g = sigmoid(gate(x))."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = make_linear(dim, dim)
        self.gate = make_linear(dim, dim, bias=INITIAL_GATE_BIAS)

    def forward(self, inputs: Tensor) -> Tensor:
        """(U, F) -> (U, F)."""
        gate, transformed = torch.sigmoid(self.gate(inputs)), torch.relu(self.transform(inputs))
        return torch.lerp(inputs, transformed.to(inputs.dtype), gate.to(inputs.dtype))  # autocast may narrow them


class CharCnn(nn.Module):
    """The features of a word, computed from its characters."""

    def __init__(
        self,
        num_characters: int,
        embedding_dim: int,
        filters: Sequence[tuple[int, int]],
        *,
        activation: str,
        num_highways: int,
    ) -> None:
        super().__init__()
        self.embedding = make_embedding(num_characters, embedding_dim)
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding_dim, channels, width) for width, channels in filters)
        for (width, _), convolution in zip(filters, self._convolutions(), strict=True):
            nn.init.zeros_(cast(Tensor, convolution.bias))
            if activation == "tanh":
                draw_normal(convolution.weight, (width * embedding_dim) ** -0.5)
            else:
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
        self.max_width = max(width for width, _ in filters)
        self.activation = ACTIVATIONS[activation]
        num_features = sum(channels for _, channels in filters)
        self.highways = nn.ModuleList(Highway(num_features) for _ in range(num_highways))

    def forward(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, F); the padding of a word has an embedding too, as in the original."""
        features = self.activation(self._pool(char_ids))
        for highway in self.highways:
            features = highway(features)
        return features

    def _pool(self, char_ids: Tensor) -> Tensor:
        """Return the maximum of each filter over a word, (U, F)."""
        num_used = torch.from_numpy(count_before_padding(char_ids.cpu().numpy()))
        weight, filters = self.embedding.weight, [convolution.weight for convolution in self._convolutions()]
        library = find_library() if weight.device.type == "cpu" and weight.dtype == torch.float32 else None
        if library is not None and fits_table(len(weight), [filter.shape for filter in filters]):
            with torch.autocast("cpu", enabled=False):
                table = make_table(weight, filters)
            biases = torch.cat([cast(Tensor, convolution.bias) for convolution in self._convolutions()])
            # All windows that start in the padding are equal, so one of them is enough.
            features: Tensor = TablePooling.apply(  # type: ignore[no-untyped-call]
                table, biases, [filter.shape for filter in filters], library, char_ids, num_used + 1
            )
            return features
        characters = self.embedding(char_ids[:, : int(num_used.max()) + self.max_width]).transpose(1, 2)  # (U, d, C)
        return torch.cat([convolution(characters).amax(dim=2) for convolution in self.convolutions], dim=1)

    def _convolutions(self) -> list[nn.Conv1d]:
        return [cast(nn.Conv1d, convolution) for convolution in self.convolutions]


def make_table(embedding: Tensor, filters: Sequence[Tensor]) -> Tensor:
    """Return the products of an alphabet (A, d) with filters (channels, d, width): one row per character."""
    columns = [weight.permute(1, 2, 0).flatten(start_dim=1) for weight in filters]  # (d, width·channels)
    return embedding @ torch.cat(columns, dim=1)


class TablePooling(torch.autograd.Function):
    """pool_characters with gradients of the table and the bias."""

    @staticmethod
    def forward(
        ctx: Any,
        table: Tensor,
        bias: Tensor,
        filters: Sequence[Sequence[int]],
        library: Library,
        char_ids: Tensor,
        num_starts: Tensor,
    ) -> Tensor:
        """Return the features (U, F) before the activation; `filters` are shapes (channels, d, width)."""
        ctx.library = library
        ctx.table = CharTable(table.detach().numpy(), bias.detach().numpy(), filters)
        char_ids = char_ids.contiguous()
        features, starts = pool_characters(library, ctx.table, char_ids, num_starts.contiguous())
        ctx.save_for_backward(char_ids, starts)
        return features

    @staticmethod
    def backward(ctx: Any, grad_features: Tensor) -> Any:
        """Return the gradients of the table and the bias."""
        char_ids, starts = ctx.saved_tensors
        grad_table = pool_characters_backward(ctx.library, ctx.table, char_ids, starts, grad_features.contiguous())
        return grad_table, grad_features.sum(dim=0), None, None, None, None
