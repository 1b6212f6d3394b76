"""The senses of words as training showed them: the sum of each sense's vectors, layer by layer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F

from elmo.analysis.layer_choice import Array
from elmo.tasks.examples import SenseTarget, entry_of

MIX_EXAMPLES = 1000
_MIX_STEPS = 150
_SHARPNESS = 10.0


@dataclass
class SenseMemory:
    """Grows by `add`; answers by `nearest`."""

    senses: dict[str, Counter[str]] = field(default_factory=dict)
    _sums: dict[tuple[str, str], Array] = field(default_factory=dict)

    def add(self, target: SenseTarget, vector: Array) -> None:
        """Remember the vectors (L+1, 2D) of a word with its senses."""
        entry = entry_of(target)
        for key in target.keys or ():
            self.senses.setdefault(entry, Counter())[key] += 1
            if (entry, key) in self._sums:
                self._sums[entry, key] += vector
            else:
                self._sums[entry, key] = vector.copy()

    def candidates(self, entry: str) -> list[str]:
        """Give the senses of a lemma, the most frequent first."""
        found = self.senses.get(entry, Counter())
        return sorted(found, key=lambda key: (-found[key], key))

    def means(self, entry: str) -> Array:
        """Give the mean vectors (senses, L+1, 2D) of a lemma's candidates."""
        counts = self.senses[entry]
        return np.stack([self._sums[entry, key] / counts[key] for key in self.candidates(entry)])

    def nearest(self, entry: str, vector: Array, weightings: Array) -> list[str]:
        """Give the sense nearest to a vector (L+1, 2D) by each weighting (W, L+1) of the layers."""
        keys = self.candidates(entry)
        if len(keys) == 1:
            return keys * len(weightings)
        mixed = np.einsum("wl,ld->wd", weightings, vector)
        means = np.einsum("wl,sld->wsd", weightings, self.means(entry))
        lengths = np.maximum(np.linalg.norm(means, axis=-1), np.finfo(np.float32).tiny)
        best = (np.einsum("wd,wsd->ws", mixed, means) / lengths).argmax(axis=1)
        return [keys[number] for number in best]


def learn_mix(
    memory: SenseMemory, examples: Sequence[tuple[SenseTarget, Array]], num_layers: int, seed: int
) -> Array:
    """Learn the weights of the layers that bring training examples nearest to their own sense.

    An example is taken out of its sense's mean first, else it would be nearest to itself.
    """
    usable = [(target, vector) for target, vector in examples if _can_teach(memory, target)]
    order = np.random.default_rng(seed).permutation(len(usable))[:MIX_EXAMPLES]
    cases = [_make_case(memory, *usable[number]) for number in order]
    weights = torch.zeros(num_layers, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.05)
    for step in range(_MIX_STEPS if cases else 0):
        batch = cases[step * 100 % len(cases) :][:100]
        losses = [_case_loss(weights.softmax(dim=0), *case) for case in batch]
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights.detach().softmax(dim=0).numpy()


def _can_teach(memory: SenseMemory, target: SenseTarget) -> bool:
    """Tell whether a word has a choice of senses, and another example of its own."""
    counts = memory.senses[entry_of(target)]
    return len(counts) > 1 and target.keys is not None and counts[target.keys[0]] > 1


def _make_case(memory: SenseMemory, target: SenseTarget, vector: Array) -> tuple[torch.Tensor, torch.Tensor, int]:
    entry, key = entry_of(target), (target.keys or ("",))[0]
    means, right = memory.means(entry), memory.candidates(entry).index(key)
    count = memory.senses[entry][key]
    means[right] = (means[right] * count - vector) / (count - 1)
    return torch.from_numpy(vector), torch.from_numpy(means), right


def _case_loss(weights: torch.Tensor, vector: torch.Tensor, means: torch.Tensor, right: int) -> torch.Tensor:
    mixed = torch.einsum("l,ld->d", weights, vector)
    cosines = F.cosine_similarity(torch.einsum("l,sld->sd", weights, means), mixed[None], dim=-1)
    return -F.log_softmax(_SHARPNESS * cosines, dim=0)[right]
