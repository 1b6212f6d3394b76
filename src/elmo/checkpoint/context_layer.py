"""The context layer of a model at rest: a table of static word vectors in 8 bits, and the tensors that go with it.

The network neither reads it nor is changed by it. inference/context.py computes with it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.config import ContextConfig
from elmo.errors import CheckpointError

LEVELS = 127  # of the 8-bit numbers, on each side of zero


@dataclass(frozen=True)
class ContextLayer:
    """Settings, the word of each row, and tensors, checked on creation (V rows, d dimensions, D of layer 0).

    vectors (V, d) int8 with scales (V,); weights (V,), low for frequent words; unknown_map (D, d) and unknown_bias
    (d,), from layer 0 to an estimated vector. For sentences: sentence_scale (d,), word_mean (D,), and the common
    directions sentence_components (k, d) and word_components (k, D).
    """

    config: ContextConfig
    words: tuple[str, ...]
    tensors: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        faults = [f"{name} is missing" for name in _expected(self.config, 0) if name not in self.tensors]
        if not faults:
            faults = self._list_misfits()
        if not faults:
            faults = [
                f"{name} holds NaN or infinite values" for name, each in self.tensors.items() if not _finite(each)
            ]
        if faults:
            raise CheckpointError(
                f"The tensors of the context layer do not fit its settings: {'; '.join(faults)}."
            )
        if len(self.words) != self.config.num_words or len(set(self.words)) != len(self.words):
            raise CheckpointError(
                f"The context layer lists {len(set(self.words)):,} distinct words, but has "
                f"{self.config.num_words:,} rows; save or copy the model again."
            )

    @property
    def word_dim(self) -> int:
        """D: the dimensions of the layer 0 it was made for."""
        shape = self.tensors["unknown_map"].shape
        return int(shape[0]) if shape else 0

    def check_word_dim(self, dim: int) -> None:
        """Raise CheckpointError if the model's layer 0 has other dimensions than this was made for."""
        if self.word_dim != dim:
            raise CheckpointError(
                f"The context layer was made for a model with word vectors of {self.word_dim} dimensions, but "
                f"this one has {dim}; make one for it with elmo fuse."
            )

    def content_hash(self) -> str:
        """Return the SHA-256 of settings, words and tensors, as config.json records it."""
        settings = repr((sorted(self.config.to_dict().items()), self.words))
        return hash_tensors(self.tensors, settings.encode())

    def _list_misfits(self) -> list[str]:
        expected = _expected(self.config, self.word_dim)
        faults = [f"{name} is not part of it" for name in self.tensors if name not in expected]
        for name, (shape, dtype) in expected.items():
            tensor = self.tensors[name]
            if tuple(tensor.shape) != shape or tensor.dtype != dtype:
                faults.append(
                    f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, not {dtype} of shape {shape}"
                )
        return faults


def hash_tensors(tensors: Mapping[str, Tensor], before: bytes = b"") -> str:
    """Return the SHA-256 of the bytes `before` and of tensors by name, shape, type and bytes."""
    digest = hashlib.sha256(before)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def quantize(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix in 8 bits and the scale of each of its rows."""
    scales = vectors.abs().amax(dim=1).clamp_(min=torch.finfo(torch.float32).tiny) / LEVELS
    return (vectors / scales[:, None]).round().to(torch.int8), scales


def _expected(config: ContextConfig, word_dim: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    num_words, dim, num_components = config.num_words, config.dim, config.num_components
    shapes: dict[str, tuple[int, ...]] = {
        "scales": (num_words,),
        "weights": (num_words,),
        "unknown_map": (word_dim, dim),
        "unknown_bias": (dim,),
        "sentence_scale": (dim,),
        "sentence_components": (num_components, dim),
        "word_mean": (word_dim,),
        "word_components": (num_components, word_dim),
    }
    return {
        "vectors": ((num_words, dim), torch.int8),
        **{name: (shape, torch.float32) for name, shape in shapes.items()},
    }


def _finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
