"""What a task family is to the rest: a protocol that each file of this folder fills, and the table of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from elmo.tasks.examples import Place, Words
from elmo.tasks.networks.encoder import Batcher, Encoder
from elmo.tasks.settings import TaskSettings

Labels = dict[str, Any]  # what was learned of the targets, as JSON
MakeEncoder = Callable[[int], Encoder]  # takes the number of extra features a word has
GIVEN = Place("the input", 0)  # of examples made of a program's own values


class TaskNetwork(Protocol):
    """An nn.Module from examples to a loss or predictions."""

    encoder: Encoder

    def loss(self, examples: Sequence[Any], batcher: Batcher) -> Tensor:
        """Give the mean loss of a batch."""
        ...

    def predict(self, examples: Sequence[Any], batcher: Batcher) -> list[Any]:
        """Give the prediction of each example."""
        ...


class Remembers(Protocol):
    """A network that is not trained but shown every training example once."""

    def absorb(self, examples: Sequence[Any], batcher: Batcher) -> None:
        """Remember what these examples say."""
        ...


class Family(Protocol):
    """One kind of task."""

    name: str

    def texts(self, example: Any) -> tuple[Words, ...]:
        """Give the sentences of an example that a biLM is to read."""
        ...

    def learn_labels(self, examples: Sequence[Any], settings: TaskSettings) -> Labels:
        """Give what the targets of the training examples are."""
        ...

    def unknown_targets(self, example: Any, labels: Labels) -> Iterable[str]:
        """Give the targets of an example that were not among the training examples'."""
        ...

    def build(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> torch.nn.Module:
        """Make the network, a TaskNetwork."""
        ...

    def metric(self, labels: Labels) -> str:
        """Give the name of the score that decides."""
        ...

    def score(self, examples: Sequence[Any], predictions: Sequence[Any], labels: Labels) -> dict[str, float]:
        """Give all scores, in percent."""
        ...

    def from_python(self, item: Any) -> Any:
        """Make an example without a target of a program's own value, or raise InputError."""
        ...


def choose_family(name: str) -> Family:
    """Give the family of a name."""
    from elmo.tasks.families.classification import Classification
    from elmo.tasks.families.pairs import Pairs
    from elmo.tasks.families.relations import Relations
    from elmo.tasks.families.senses import Senses
    from elmo.tasks.families.spans import Spans
    from elmo.tasks.families.tagging import Tagging

    families: list[Family] = [Tagging(), Classification(), Pairs(), Relations(), Spans(), Senses()]
    return {family.name: family for family in families}[name]
