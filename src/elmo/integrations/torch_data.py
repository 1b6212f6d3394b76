"""The rows of a vector folder as a torch Dataset, and rows of different lengths as one padded batch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from elmo.vectors import VectorRow


class VectorDataset(Dataset[dict[str, Any]]):
    """Rows with their `index`, `id`, `words` and `vectors` (T, 2D), for a DataLoader with any number of workers."""

    def __init__(self, vectors: Sequence[VectorRow]) -> None:
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, position: int) -> dict[str, Any]:
        row = self.vectors[position]
        # torch warns about an array that is not writable.
        tensor = torch.from_numpy(row.vectors if row.vectors.flags.writeable else row.vectors.copy())
        return {"index": row.index, "id": row.id, "words": row.words, "vectors": tensor}


def pad(examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one batch, as a DataLoader's `collate_fn`: vectors (B, T, 2D), zero where padded, and their mask."""
    batch: dict[str, Any] = {name: [example[name] for example in examples] for name in ("index", "id", "words")}
    lengths = torch.tensor([len(example["vectors"]) for example in examples])
    vectors = pad_sequence([example["vectors"] for example in examples], batch_first=True)
    mask = torch.arange(vectors.shape[1]) < lengths[:, None]
    return {
        **batch,
        "index": torch.tensor([example["index"] for example in examples]),
        "vectors": vectors,
        "mask": mask,
    }
