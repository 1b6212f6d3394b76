"""What predicts a teacher's vectors from layers of ours; learned beside the model and never part of it."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.nn.initialize import draw_glorot
from elmo.pretrain.relations import compare_relations, find_others

AVERAGE = -1  # in the place of a layer's number
MIN_OTHERS = 2  # occurrences of a word beside one that is compared with them


class TeacherHeads(nn.Module):
    """A linear map for each layer that learns, or for the average of all of them."""

    def __init__(self, names: Sequence[str], *, num_layers: int, input_dim: int, output_dim: int) -> None:
        """`names` are of top, each and average; num_layers counts the word vectors as layer 0."""
        super().__init__()
        chosen = {"top": range(num_layers - 1, num_layers), "each": range(1, num_layers), "average": [AVERAGE]}
        self._layers = sorted({layer for name in names for layer in chosen[name]})
        self.maps = nn.ModuleList(nn.Linear(input_dim, output_dim) for _ in self._layers)
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                draw_glorot(parameter)

    def forward(self, layers: Tensor, vectors: Tensor) -> Tensor:
        """Layers (L+1, N, 2D) and the teacher's vectors (N, E) of length 1 -> the heads' mean cosine (N,)."""
        found = [
            (F.normalize(head(own), dim=-1) * vectors).sum(dim=-1)
            for head, own in zip(self.maps, self._choose(layers), strict=True)
        ]
        return torch.stack(found).mean(dim=0)

    def relate(self, layers: Tensor, vectors: Tensor, words: Tensor) -> Tensor:
        """Give how far our view of which occurrences of a word are near which is from the teacher's, word by word.

        `words` (N,) says which are the same. Our vectors are compared as they are, without a head; a word that
        occurs less than MIN_OTHERS times besides takes no part and gets 0.
        """
        others = find_others(words)
        losses = [compare_relations(own, vectors, others) for own in self._choose(layers)]
        return torch.stack(losses).mean(dim=0) * (others.sum(dim=1) >= MIN_OTHERS)

    def _choose(self, layers: Tensor) -> list[Tensor]:
        """Give what learns, (N, 2D) each."""
        return [layers.mean(dim=0) if layer == AVERAGE else layers[layer] for layer in self._layers]

    def no_loss(self) -> Tensor:
        """Give 0 as a function of every weight here, for processes that add up gradients of all weights."""
        return sum((parameter.sum() * 0 for parameter in self.parameters()), start=torch.zeros(()))
