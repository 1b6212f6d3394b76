"""Which of some vectors are near which, to us and to a teacher: the loss of seeing it another way."""

import torch
import torch.nn.functional as F
from torch import Tensor

# Of softmaxes over cosines. Ours is higher: it takes larger differences to say the same.
TEACHER_TEMPERATURE, TEMPERATURE = 0.05, 0.1
_NEVER = -1e9


def find_others(words: Tensor) -> Tensor:
    """Say of each two of (..., n) whether they are different occurrences of one word: (..., n, n)."""
    itself = torch.eye(words.shape[-1], dtype=torch.bool, device=words.device)
    return (words[..., :, None] == words[..., None, :]) & ~itself


def compare_relations(own: Tensor, taught: Tensor, others: Tensor) -> Tensor:
    """Vectors (..., n, D), the teacher's (..., n, E), who is compared with whom (..., n, n) -> losses (..., n).

    A loss is the KL divergence between what a softmax makes of a vector's cosines with the others, ours and the
    teacher's; 0 where there are none.
    """
    wanted = _look(taught, others, TEACHER_TEMPERATURE)
    found = _look(own, others, TEMPERATURE)
    return F.kl_div(found, wanted, reduction="none", log_target=True).sum(dim=-1)


def _look(vectors: Tensor, others: Tensor, temperature: float) -> Tensor:
    unit = F.normalize(vectors, dim=-1)
    return (unit @ unit.mT / temperature).masked_fill(~others, _NEVER).log_softmax(dim=-1)
