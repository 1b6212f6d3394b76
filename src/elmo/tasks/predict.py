"""The base class of trained tasks and ready-made taggers: texts or labelled data -> predictions and scores."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from elmo.errors import InputError
from elmo.tasks.examples import Example, Words, build_example, describe_prediction
from elmo.tasks.readers import read_examples
from elmo.tasks.readers.records import Data, to_source
from elmo.tasks.settings import ReadSettings
from elmo.text.tokenize import Word

EXAMPLES_AT_ONCE = 256


class TrainedTask(ABC):
    """Predicts the targets of examples. Several threads may call it."""

    def __init__(self, family: str, labels: Sequence[str], read: ReadSettings) -> None:
        """`labels` is empty for scores, answers and senses; `read` has the settings of the training data."""
        self.family, self.labels, self.read = family, list(labels), read

    @abstractmethod
    def tokenize(self, text: str) -> list[Word]:
        """Split a text into words with their offsets, as in training."""

    @abstractmethod
    def texts(self, example: Any) -> tuple[Words, ...]:
        """Return the words of each text of an example."""

    @abstractmethod
    def _predict(self, examples: list[Any]) -> Sequence[Any]:
        """Return the predictions of up to EXAMPLES_AT_ONCE examples."""

    @abstractmethod
    def _score(self, examples: list[Any], predictions: list[Any]) -> dict[str, float]:
        """Return the scores of predictions, in percent."""

    def predict(self, items: Iterable[Any]) -> list[Any]:
        """Return the prediction of each item, in order, such as a TagPrediction or LabelPrediction.

        Items are texts, pairs of texts, and so on: see `elmo.tasks.examples.build_example`.
        """
        return list(self.predict_examples(self.read_items(items)))

    def evaluate(self, data: Data) -> dict[str, float]:
        """Return the scores, in percent, on labelled data in any form that `train` takes, or from read_examples."""
        is_read = isinstance(data, list) and bool(data) and isinstance(data[0], Example)
        examples = data if is_read else self.read_examples(data)
        tags = [tag for example in examples for tag in example.tags or ()] if self.family == "tagging" else []
        if tags and self.labels and set(tags).isdisjoint(self.labels):
            raise InputError(
                f"{examples[0].place}: {tags[0]!r} and all other tags are unknown to this task, which has "
                f"{', '.join(self.labels[:5])}, …; name the column of the tags with --column tag=NUMBER."
            )
        return self._score(examples, list(self.predict_examples(examples)))

    def read_examples(self, data: Data, read: ReadSettings | None = None) -> list[Any]:
        """Read labelled data like the training data, unless the format differs or `read` overrides the settings."""
        source = to_source(data, self.family, "the data")
        return read_examples(source, self.family, read or ReadSettings(), trained=self.read)[0]

    def read_items(self, items: Iterable[Any]) -> list[Any]:
        """Build examples from the items of `predict`; raise InputError for an item of another form."""
        if isinstance(items, str | bytes):
            raise InputError("predict takes a list of items; put the one text in a list.")
        return [build_example(self.family, item, self.tokenize) for item in items]

    def predict_examples(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Yield the predictions of examples, in order; memory is bounded."""
        remaining = iter(examples)
        while chunk := list(islice(remaining, EXAMPLES_AT_ONCE)):
            yield from self._predict(chunk)

    def to_json(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Return a prediction as a JSON object; the spans of a text also have half-open character ranges."""
        text = example.record if isinstance(example.record, str) else None
        values = describe_prediction(prediction, text)
        if offsets := values.get("offsets"):
            for span in values["spans"]:
                span["characters"] = (offsets[span["start"]][0], offsets[span["end"] - 1][1])
        if text is not None:
            return {"input": text, **values}
        return {"words": example.words, **values} if hasattr(example, "words") else values
