"""The rows of a vector folder as a torch Dataset, and rows of different lengths as one padded batch."""

from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from elmo.vectors import VectorRow


class Example(TypedDict):
    """One row."""

    index: int
    id: str | None
    words: list[str]
    vectors: Tensor


class VectorDataset(Dataset[Example]):
    """Rows by position, for a DataLoader with any number of workers."""

    def __init__(self, vectors: Sequence[VectorRow]) -> None:
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, position: int) -> Example:
        row = self.vectors[position]
        # torch warns about an array that is not writable.
        tensor = torch.from_numpy(row.vectors if row.vectors.flags.writeable else row.vectors.copy())
        return Example(index=row.index, id=row.id, words=row.words, vectors=tensor)


def pad(examples: Sequence[Example]) -> dict[str, Any]:
    """Return one batch, as a DataLoader's `collate_fn`: vectors (B, T, 2D), zero where padded, and their mask."""
    vectors = pad_sequence([example["vectors"] for example in examples], batch_first=True)
    lengths = torch.tensor([len(example["vectors"]) for example in examples])
    return {
        "index": torch.tensor([example["index"] for example in examples]),
        "id": [example["id"] for example in examples],
        "words": [example["words"] for example in examples],
        "vectors": vectors,
        "mask": torch.arange(vectors.shape[1]) < lengths[:, None],
    }
