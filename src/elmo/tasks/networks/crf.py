"""A linear-chain conditional random field: scores of words and of neighbouring tags -> the best sequence."""

import torch
from torch import Tensor, nn

_FORBIDDEN = -1e4


class Crf(nn.Module):
    """Learned scores of tag after tag, of the first and of the last tag."""

    def __init__(self, num_tags: int, allowed: Tensor | None = None, allowed_first: Tensor | None = None) -> None:
        """`allowed` (K, K), from and to, and `allowed_first` (K,): False for what cannot be."""
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.first = nn.Parameter(torch.zeros(num_tags))
        self.last = nn.Parameter(torch.zeros(num_tags))
        self._forbidden: Tensor
        self._forbidden_first: Tensor
        forbidden = torch.zeros(num_tags, num_tags) if allowed is None else (~allowed) * _FORBIDDEN
        forbidden_first = torch.zeros(num_tags) if allowed_first is None else (~allowed_first) * _FORBIDDEN
        self.register_buffer("_forbidden", forbidden.float(), persistent=False)
        self.register_buffer("_forbidden_first", forbidden_first.float(), persistent=False)

    def loss(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Give the mean of -log p(tags) over sentences: scores (B, T, K), tags (B, T), mask (B, T)."""
        # What the data has although it "cannot be" must not cost infinitely: only decoding forbids.
        real = mask.to(scores.dtype)
        chosen = (scores.gather(2, tags[..., None])[..., 0] * real).sum(dim=1)
        steps = self.transitions[tags[:, :-1], tags[:, 1:]] * real[:, 1:]
        ends = tags.gather(1, (mask.sum(dim=1) - 1).clamp(min=0)[:, None])[:, 0]
        gold = chosen + steps.sum(dim=1) + self.first[tags[:, 0]] + self.last[ends]
        total = self.first + scores[:, 0]
        for step in range(1, scores.shape[1]):
            new = torch.logsumexp(total[:, :, None] + self.transitions, dim=1) + scores[:, step]
            total = torch.where(mask[:, step, None], new, total)
        normalizer = torch.logsumexp(total + self.last, dim=1)
        some = mask.any(dim=1)
        return ((normalizer - gold) * some).sum() / some.sum().clamp(min=1)

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """Give the best sequence of tags of each sentence."""
        transitions = self.transitions + self._forbidden
        total = self.first + self._forbidden_first + scores[:, 0]
        pointers = []
        for step in range(1, scores.shape[1]):
            best, pointer = (total[:, :, None] + transitions).max(dim=1)
            total = torch.where(mask[:, step, None], best + scores[:, step], total)
            pointers.append(pointer)
        lengths = mask.sum(dim=1).tolist()
        last_tags = (total + self.last).argmax(dim=1).tolist()
        sequences = []
        for row, (length, tag) in enumerate(zip(lengths, last_tags, strict=True)):
            path = [tag][:length]
            for pointer in reversed(pointers[: max(0, length - 1)]):
                tag = int(pointer[row, tag])
                path.append(tag)
            sequences.append(path[::-1])
        return sequences
