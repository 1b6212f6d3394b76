"""The task families: their networks, their predictions and the scores of these.

Each module has FAMILIES by name, which the rest of the package works with.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from elmo.layer import ElmoLayer, LayerMixes
from elmo.nn.scalar_mix import ScalarMix
from elmo.tasks.examples import Words
from elmo.tasks.families.networks import Encoder
from elmo.tasks.settings import TaskSettings

Labels = dict[str, Any]  # what was learned about the targets, as JSON
_MODULES = {
    "tagging": "tagging", "classification": "labels", "pairs": "labels", "relations": "labels",
    "question_answering": "question_answering", "senses": "senses",
}  # fmt: skip
MakeEncoder = Callable[[int], Encoder]  # takes the number of extra features per word


class TaskNetwork(nn.Module):
    """Examples -> a loss or predictions."""

    encoder: Encoder
    fits_directly = False  # whether `fit_examples` trains it in one call, instead of the gradients of `loss`

    @property
    def elmo(self) -> LayerMixes | ElmoLayer | None:
        """The module that mixes the layers of the biLM, or of its own biLM that is tuned, if there is one."""
        return self.encoder.elmo if hasattr(self, "encoder") else None

    @property
    def mixes(self) -> LayerMixes | None:
        """The module that mixes the layers, if ELMo enters at all."""
        return self.elmo.mixes if isinstance(self.elmo, ElmoLayer) else self.elmo

    @property
    def mixing_weights(self) -> list[dict[str, Any]]:
        """The learned s_j ("weights") and γ ("gamma") of each mix; none without ELMo."""
        mixes = cast(Sequence[ScalarMix], self.mixes or ())
        return [{"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()} for mix in mixes]

    def loss(self, examples: Sequence[Any]) -> Tensor:
        """Return the mean loss of a batch."""
        raise NotImplementedError

    def predict(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return the prediction of each example."""
        raise NotImplementedError

    def fit_examples(self, examples: Sequence[Any], seed: int) -> Sequence[Any] | None:
        """Train on all examples; return the prediction of each by a network that had not seen it, if there are."""
        raise NotImplementedError


class Family:
    """One kind of task. The defaults are those of examples with `words` and a `label`."""

    name: ClassVar[str]
    network: ClassVar[type[Any]]  # a TaskNetwork, built with a MakeEncoder, Labels and TaskSettings
    main_metric: ClassVar[str] = "accuracy"

    def texts(self, example: Any) -> tuple[Words, ...]:
        """Return the sentences of an example that a biLM reads."""
        return (example.words,)

    def learn_labels(self, examples: Sequence[Any], settings: TaskSettings) -> Labels:
        """Return what the targets of the training examples are."""
        return {"labels": sorted({example.label for example in examples if example.label is not None})}

    def unknown_targets(self, example: Any, labels: Labels) -> Sequence[str]:
        """Return the targets of an example that no training example had."""
        return [example.label] if example.label is not None and example.label not in labels["labels"] else []

    def metric(self, labels: Labels) -> str:
        """Return the name of the score that decides."""
        return self.main_metric

    def score(self, examples: Sequence[Any], predictions: Sequence[Any], labels: Labels) -> dict[str, float]:
        """Return all scores, in percent."""
        raise NotImplementedError


def choose_family(name: str) -> Family:
    """Return the family of a name."""
    return cast(Family, import_module(f"elmo.tasks.families.{_MODULES[name]}").FAMILIES[name])
