"""Vectors of all layers and labels -> linear classifiers, one for each layer, the average and a learned mix.

All are trained side by side on the same batches; none changes what another learns. Each layer is first brought to
mean 0 and deviation 1 a value, so that none is favoured by its scale.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

NO_LABEL = -1
_MIX_RATE = 10


@dataclass(frozen=True)
class LabelledVectors:
    """Vectors (N, L+1, D) and the labels (N, H) of H questions, NO_LABEL where one is not asked."""

    vectors: npt.NDArray[np.float16]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class LinearScores:
    """Right answers in percent (L+3, H): each layer, the average, the mix; and the mix's weights."""

    accuracy: npt.NDArray[np.float64]
    mix_weights: tuple[float, ...]


@dataclass(frozen=True)
class LinearSettings:
    """How the classifiers are trained."""

    num_epochs: int = 8
    min_steps: int = 500  # small data is passed over more often
    batch_size: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2


class LinearProbe(nn.Module):
    """(B, L+1, D) -> (B, L+3, C): what each kind of vector says."""

    def __init__(self, vectors: Tensor, num_classes: int) -> None:
        """Take the training vectors (N, L+1, D), to know their scale."""
        super().__init__()
        num_layers, dim = vectors.shape[1:]
        sums, squares = _moments(vectors)
        self.register_buffer("mean", sums)
        self.register_buffer("scale", 1 / squares.clamp_min(1e-12).sqrt())
        self.mix = nn.Parameter(torch.zeros(num_layers))
        self.weight = nn.Parameter(torch.zeros(num_layers + 2, dim, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_layers + 2, num_classes))

    def forward(self, vectors: Tensor) -> Tensor:
        """Give the scores of all classes."""
        raw = torch.cat((vectors, vectors.mean(dim=1, keepdim=True)), dim=1)  # (B, L+2, D)
        scaled = (raw - self.mean) * self.scale  # type: ignore[operator]
        mixed = torch.einsum("l,bld->bd", self.mix.softmax(dim=0), scaled[:, :-1])
        inputs = torch.cat((scaled, mixed[:, None]), dim=1)
        return torch.einsum("brd,rdc->brc", inputs, self.weight) + self.bias


def train_linear_probe(
    train: LabelledVectors, test: LabelledVectors, class_counts: list[int], settings: LinearSettings, seed: int
) -> LinearScores:
    """Train on the one, measure on the other; `class_counts` has the number of classes of each question."""
    draw = torch.Generator().manual_seed(seed)
    vectors, labels = torch.from_numpy(train.vectors), torch.from_numpy(train.labels)
    probe = LinearProbe(vectors, sum(class_counts))
    classifiers = {"params": [probe.weight, probe.bias], "weight_decay": settings.weight_decay}
    # A few weights for all words: they need larger steps, and nothing pulls them back.
    mix = {"params": [probe.mix], "lr": _MIX_RATE * settings.learning_rate, "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([classifiers, mix], lr=settings.learning_rate)
    num_batches = -(-len(vectors) // settings.batch_size)
    num_epochs = max(settings.num_epochs, -(-settings.min_steps // num_batches))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_epochs * num_batches)
    for _ in range(num_epochs):
        for rows in torch.split(torch.randperm(len(vectors), generator=draw), settings.batch_size):
            loss = _loss(probe(vectors[rows].float()), labels[rows], class_counts)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    weights = tuple(probe.mix.detach().softmax(dim=0).tolist())
    return LinearScores(_measure(probe, test, class_counts, settings.batch_size), weights)


def _loss(scores: Tensor, labels: Tensor, class_counts: list[int]) -> Tensor:
    """Sum over the kinds of vectors, mean over the words that have a label."""
    total = scores.new_zeros(())
    for question, part in enumerate(torch.split(scores, class_counts, dim=-1)):
        asked = labels[:, question] != NO_LABEL
        if asked.any():
            right = labels[asked, question]
            for kind in range(part.shape[1]):
                total = total + F.cross_entropy(part[asked, kind], right)
    return total


@torch.no_grad()
def _measure(
    probe: LinearProbe, test: LabelledVectors, class_counts: list[int], batch_size: int
) -> npt.NDArray[np.float64]:
    num_kinds = probe.weight.shape[0]
    right, asked = np.zeros((num_kinds, len(class_counts))), np.zeros(len(class_counts))
    for start in range(0, len(test.vectors), batch_size):
        rows = slice(start, start + batch_size)
        scores = probe(torch.from_numpy(test.vectors[rows]).float())
        for question, part in enumerate(torch.split(scores, class_counts, dim=-1)):
            labels = torch.from_numpy(test.labels[rows, question])
            is_asked = labels != NO_LABEL
            is_right = (part.argmax(dim=-1) == labels[:, None]) & is_asked[:, None]
            right[:, question] += is_right.sum(dim=0).numpy()
            asked[question] += is_asked.sum().item()
    return np.asarray(100 * right / np.maximum(asked, 1))


def _moments(vectors: Tensor, rows_at_once: int = 4096) -> tuple[Tensor, Tensor]:
    """Give mean and variance (L+2, D) of each layer and of the average."""
    sums = squares = torch.zeros(())
    for part in torch.split(vectors, rows_at_once):
        wide = part.double()
        wide = torch.cat((wide, wide.mean(dim=1, keepdim=True)), dim=1)
        sums, squares = sums + wide.sum(dim=0), squares + wide.square().sum(dim=0)
    mean = sums / len(vectors)
    return mean.float(), (squares / len(vectors) - mean.square()).float()
