"""scikit-learn: texts -> vectors in a Pipeline. ElmoVectorizer for sentences, ElmoFeaturizer for words in them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.inference.embedder import Pooling
from elmo.inference.layers import Layers
from elmo.integrations import ModelSource, missing_package, open_shared, vector_length
from elmo.model import Elmo

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ImportError as error:
    raise missing_package("scikit-learn", "sklearn") from error

Array = npt.NDArray[np.float32]


class _Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer that learns nothing and opens its model when it is first needed."""

    model: ModelSource
    precision: str
    device: str

    def fit(self, texts: Any, y: Any = None) -> Any:
        """Open the model; nothing is learned from the data."""
        self._elmo = open_shared(self.model, precision=self.precision, device=self.device)
        self._count_features(self._elmo)  # raises an error for layers that give several vectors
        return self

    def _open(self) -> Elmo:
        if not hasattr(self, "_elmo"):
            self.fit(None)
        return self._elmo

    @property
    def _n_features_out(self) -> int:  # of ClassNamePrefixFeaturesOutMixin
        return self._count_features(self._open())

    @abstractmethod
    def _count_features(self, model: Elmo) -> int: ...

    def __getstate__(self) -> Any:
        # A model that was named is opened again by its name; one that was given is a parameter and goes along.
        return {name: value for name, value in super().__getstate__().items() if name != "_elmo"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.transformer_tags.preserves_dtype = []
        return tags


class ElmoVectorizer(_Transformer):
    """Texts, or lists of words, become one vector each, as `Elmo.encode` returns them.

    `model` is anything Elmo.from_pretrained opens, None for the default model, or an Elmo itself; clones and
    pickles refer to a named model by its name. `pooling` and `layers` can be searched by GridSearchCV. "auto" is
    what is best for classifiers: the model's sentence head, else the mean of all layers side by side.
    """

    def __init__(
        self,
        model: ModelSource = None,
        *,
        pooling: Pooling = "auto",
        layers: Layers | None = None,
        normalize: bool = False,
        batch_size: int | None = None,
        precision: str = "auto",
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.pooling = pooling
        self.layers = layers
        self.normalize = normalize
        self.batch_size = batch_size
        self.precision = precision
        self.device = device

    def transform(self, texts: Iterable[str | Sequence[str]]) -> Array:
        """Return the vectors (N, dimensions) of texts or lists of words."""
        model = self._open()
        pooling, layers = self._choose_pooling(model)
        return model.encode(
            _check_column(texts),
            pooling=pooling,
            layers=layers,
            normalize_embeddings=self.normalize,
            batch_size=self.batch_size,
        )

    def _choose_pooling(self, model: Elmo) -> tuple[Pooling, Layers | None]:
        if self.pooling == "auto" and self.layers is None and model.choose_pooling("auto", None) != "head":
            return "mean", "concat"
        return self.pooling, self.layers

    def _count_features(self, model: Elmo) -> int:
        if self.layers is not None:
            vector_length(model, self.layers)
        return model.sentence_shape(*self._choose_pooling(model))[0]


class ElmoFeaturizer(_Transformer):
    """Words in their sentences become one vector each, as `Elmo.embed` returns them.

    A row of the input is a pair (sentence, index): a list of words, or a text, and the index of the word in it.
    There is one row per label, so any splitter, search or classifier of scikit-learn can be used;
    `ElmoFeaturizer.rows` makes the rows of whole sentences.
    """

    def __init__(
        self,
        model: ModelSource = None,
        *,
        layers: Layers = "auto",
        batch_size: int | None = None,
        precision: str = "auto",
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.layers = layers
        self.batch_size = batch_size
        self.precision = precision
        self.device = device

    @staticmethod
    def rows(sentences: Iterable[Sequence[str]]) -> list[tuple[Sequence[str], int]]:
        """Return one row (sentence, index) per word of sentences that are lists of words."""
        sentences = list(sentences)
        if any(isinstance(sentence, str) for sentence in sentences):
            raise InputError("A sentence is a string; give lists of words.")
        return [(sentence, index) for sentence in sentences for index in range(len(sentence))]

    def transform(self, rows: Iterable[tuple[str | Sequence[str], int]]) -> Array:
        """Return the vectors (N, dimensions) of words; each distinct sentence is encoded once."""
        model, rows = self._open(), list(_check_column(rows))
        numbers: dict[Any, int] = {}
        for position, row in enumerate(rows):
            if isinstance(row, str) or len(row) != 2 or not isinstance(row[1], int | np.integer):
                raise InputError(
                    f"Row {position} is {row!r:.60}; give pairs of a sentence and the index of a word in it, such "
                    "as (['I', 'went'], 1), or make them with ElmoFeaturizer.rows."
                )
            numbers.setdefault(_hashable(row[0]), len(numbers))
        arrays = model.embed(list(numbers), layers=self.layers, batch_size=self.batch_size)
        vectors = np.empty((len(rows), self._count_features(model)), dtype=np.float32)
        for position, (sentence, index) in enumerate(rows):
            array = arrays[numbers[_hashable(sentence)]]
            if not 0 <= index < len(array):
                raise InputError(f"Row {position} has the index {index}, but its sentence has {len(array)} words.")
            vectors[position] = array[index]
        return vectors

    def _count_features(self, model: Elmo) -> int:
        return vector_length(model, self.layers)


def _hashable(sentence: str | Sequence[str]) -> str | tuple[str, ...]:
    return sentence if isinstance(sentence, str) else tuple(sentence)


def _check_column(values: Any) -> Any:
    """Return the values; InputError for a single string, or a table instead of one column."""
    if isinstance(values, str):
        raise InputError(f"The input is the string {values!r:.60}; give a list of texts.")
    if getattr(values, "ndim", 1) != 1:
        raise InputError(
            f"The input has the shape {values.shape}; give one column of texts (in a ColumnTransformer, name the "
            "column by a string, not by a list)."
        )
    return values
