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
    """What both transformers are: nothing is learned, and the model is opened when it is first needed."""

    model: ModelSource
    precision: str
    device: str

    def fit(self, texts: Any, y: Any = None) -> Any:
        """Open the model; nothing is learned from the data."""
        self._open()
        return self

    def _open(self) -> Elmo:
        asked = (self.model, self.precision, self.device)
        if getattr(self, "_opened", (None, None))[0] != asked:
            model = open_shared(self.model, precision=self.precision, device=self.device)
            self._opened = (asked, model)
        self._n_features_out = self._count_features(self._opened[1])
        return self._opened[1]

    @abstractmethod
    def _count_features(self, model: Elmo) -> int: ...

    def __getstate__(self) -> Any:
        # A model that was named is opened again by its name; one that was given is a parameter and goes along.
        return {name: value for name, value in super().__getstate__().items() if name != "_opened"}

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
    pickles refer to a named model by its name. `pooling` and `layers` can be searched by GridSearchCV.
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
        return self._open().encode(
            _check_column(texts),
            pooling=self.pooling,
            layers=self.layers,
            normalize_embeddings=self.normalize,
            batch_size=self.batch_size,
        )

    def _count_features(self, model: Elmo) -> int:
        if self.layers is not None:
            vector_length(model, self.layers)
        return model.sentence_shape(self.pooling, self.layers)[0]


class ElmoFeaturizer(_Transformer):
    """Words in their sentences become one vector each, as `Elmo.embed` returns them.

    A row of the input is a pair (sentence, index): a list of words, or a text, and the place of the word in it. So
    there is one row per label, and any splitter, search or classifier of scikit-learn can be used;
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
        found = []
        for sentence in sentences:
            if isinstance(sentence, str):
                raise InputError(f"The sentence {sentence!r:.60} is a string; give its words in a list.")
            found += [(sentence, index) for index in range(len(sentence))]
        return found

    def transform(self, rows: Iterable[tuple[str | Sequence[str], int]]) -> Array:
        """Return the vectors (N, dimensions) of words; each distinct sentence is read once."""
        model = self._open()
        numbers: dict[Any, int] = {}
        places = []
        for position, row in enumerate(_check_column(rows)):
            if not _is_row(row):
                raise InputError(
                    f"Row {position} is {row!r:.60}; give pairs of a sentence and the index of a word in it, such "
                    "as (['I', 'went'], 1), or make them with ElmoFeaturizer.rows."
                )
            sentence, index = row
            key = sentence if isinstance(sentence, str) else tuple(sentence)
            places.append((numbers.setdefault(key, len(numbers)), index))
        if not places:
            raise InputError("An empty list was given; give at least one pair of a sentence and an index.")
        arrays = model.embed(list(numbers), layers=self.layers, batch_size=self.batch_size)
        found = np.empty((len(places), arrays[0].shape[1]), dtype=np.float32)
        for position, (number, index) in enumerate(places):
            if not 0 <= index < len(arrays[number]):
                raise InputError(
                    f"Row {position} has the index {index}, but its sentence has {len(arrays[number])} words."
                )
            found[position] = arrays[number][index]
        return found

    def _count_features(self, model: Elmo) -> int:
        return vector_length(model, self.layers)


def _check_column(values: Any) -> Any:
    """Refuse one string, and a table where one column is needed."""
    if isinstance(values, str):
        raise InputError(f"The input is the string {values!r:.60}; give a list of texts.")
    if getattr(values, "ndim", 1) != 1:
        raise InputError(
            f"The input has the shape {values.shape}; give one column of texts (in a ColumnTransformer, name the "
            "column by a string, not by a list)."
        )
    return values


def _is_row(row: Any) -> bool:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 2:
        return False
    return isinstance(row[0], Sequence) and isinstance(row[1], int | np.integer)
