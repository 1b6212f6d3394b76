"""scikit-learn: ElmoVectorizer, a transformer of texts to vectors for a Pipeline."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.config import Pooling
from elmo.errors import InputError
from elmo.inference.layers import Layers
from elmo.integrations import ModelSource, missing_package, open_shared, vector_length
from elmo.model import Elmo

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ImportError as error:
    raise missing_package("scikit-learn", "sklearn") from error

Array = npt.NDArray[np.float32]


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transforms texts, or lists of words, to vectors with `Elmo.encode`.

    Nothing is learned, and the model is opened at first use. `model` is anything that Elmo.from_pretrained opens, None
    for the default model, or an Elmo itself; clones and pickles refer to a named model by its name. `pooling` and
    `layers` can be searched with GridSearchCV. "auto" is the best choice for classifiers: the model's sentence head if
    it has one, otherwise the mean of the concatenated layers.
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

    def fit(self, texts: Any, y: Any = None) -> Any:
        """Open the model; nothing is learned from the data."""
        self._elmo = open_shared(self.model, precision=self.precision, device=self.device)
        if self.layers is not None:
            vector_length(self._elmo, self.layers)  # raises an error for layers that give several vectors
        return self

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

    def _open(self) -> Elmo:
        if not hasattr(self, "_elmo"):
            self.fit(None)
        return self._elmo

    def _choose_pooling(self, model: Elmo) -> tuple[Pooling, Layers | None]:
        if self.pooling == "auto" and self.layers is None and model.checkpoint().sentence is None:
            return "mean", "concat"
        return self.pooling, self.layers

    @property
    def _n_features_out(self) -> int:  # of ClassNamePrefixFeaturesOutMixin
        model = self._open()
        return model.sentence_shape(*self._choose_pooling(model))[0]

    def __getstate__(self) -> Any:
        # A named model is opened again by its name; an Elmo is a parameter and is pickled.
        return {name: value for name, value in super().__getstate__().items() if name != "_elmo"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _check_column(values: Any) -> Any:
    """Return the values; InputError for a single text or a table instead of one column."""
    if isinstance(values, str) or getattr(values, "ndim", 1) != 1:
        raise InputError(
            f"The input is {values!r:.60}; give a list or one column of texts (in a ColumnTransformer, name the column "
            "by a string, not by a list)."
        )
    return values
