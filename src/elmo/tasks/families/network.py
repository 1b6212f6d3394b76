"""The base class of the networks of all task families."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from elmo.layer import ElmoLayer, LayerMixes
from elmo.nn.scalar_mix import ScalarMix
from elmo.tasks.examples import Words
from elmo.tasks.families.blocks import Encoder
from elmo.tasks.families.metrics import score_labels
from elmo.tasks.settings import TaskSettings

logger = logging.getLogger(__name__)

Labels = dict[str, Any]  # the labels and other properties of the targets, as JSON
MakeEncoder = Callable[[int], Encoder]  # takes the number of extra features per word
_PREDICT_BATCH = 64


class TaskNetwork(nn.Module):
    """The base class of task networks: the labels, loss, predictions and scores of a family.

    The defaults are for examples with `words` and a `label`.
    """

    encoder: Encoder
    main_metric: ClassVar[str] = "accuracy"

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self.labels = labels

    # --- defined by each family

    @staticmethod
    def texts(example: Any) -> tuple[Words, ...]:
        """Return the sentences of an example that a biLM encodes."""
        return (example.words,)

    @staticmethod
    def learn_labels(examples: Sequence[Any], settings: TaskSettings) -> Labels:
        """Return the labels of the training examples."""
        return {"labels": sorted({example.label for example in examples if example.label is not None})}

    def unknown_targets(self, example: Any) -> Sequence[str]:
        """Return the targets of an example that did not occur in training."""
        return [example.label] if example.label is not None and example.label not in self.labels["labels"] else []

    @property
    def metric(self) -> str:
        """The name of the main score, which selects the best epoch."""
        return self.main_metric

    def loss(self, examples: Sequence[Any]) -> Tensor:
        """Return the mean loss of a batch."""
        raise NotImplementedError

    def predict_batch(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return the prediction of each example of a batch."""
        raise NotImplementedError

    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """Return all scores of predictions, in percent."""
        gold = [example.label or "" for example in examples]
        return score_labels(gold, [prediction.label for prediction in predictions])

    # --- shared by all families

    @property
    def elmo(self) -> LayerMixes | ElmoLayer | None:
        """The module that mixes the layers of the frozen biLM, or the layer that tunes its biLM; None without ELMo."""
        return self.encoder.elmo if hasattr(self, "encoder") else None

    @property
    def mixes(self) -> LayerMixes | None:
        """The module that mixes the layers; None without ELMo."""
        return self.elmo.mixes if isinstance(self.elmo, ElmoLayer) else self.elmo

    @property
    def mixing_weights(self) -> list[dict[str, Any]]:
        """The learned s_j ("weights") and γ ("gamma") of each mix; none without ELMo."""
        mixes = cast(Sequence[ScalarMix], self.mixes or ())
        return [{"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()} for mix in mixes]

    def num_words(self, example: Any) -> int:
        """Return the number of words of an example."""
        return sum(map(len, self.texts(example)))

    @torch.no_grad()
    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """Return the prediction of each example, in order; batches have examples of similar length."""
        self.eval()
        order = sorted(range(len(examples)), key=lambda number: self.num_words(examples[number]))
        predictions: dict[int, Any] = {}
        for start in range(0, len(order), _PREDICT_BATCH):
            batch = order[start : start + _PREDICT_BATCH]
            predictions.update(zip(batch, self.predict_batch([examples[number] for number in batch]), strict=True))
        return [predictions[number] for number in range(len(examples))]

    def evaluate(self, examples: Sequence[Any]) -> dict[str, float]:
        """Return the scores of labelled examples."""
        return self.score(examples, self.predict(examples))

    def warn_of_unknown(self, examples: Sequence[Any], name: str) -> None:
        """Warn about targets that did not occur in training, which cannot be predicted; name the first one's place."""
        unknown = [(example, targets) for example in examples if (targets := self.unknown_targets(example))]
        if unknown:
            first, targets = unknown[0]
            logger.warning(
                "%s: %r was not among the labels in training (%d such %s examples); it counts as an error.",
                first.place, targets[0], len(unknown), name,
            )  # fmt: skip
