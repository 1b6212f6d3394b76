"""flair: ElmoEmbeddings, token embeddings with the modes of flair's own ELMo."""

from pathlib import Path
from typing import Any, Literal

import torch

from elmo.errors import InputError
from elmo.inference.layers import Layers
from elmo.integrations import (
    ModelSource,
    missing_package,
    model_from_bytes,
    model_to_bytes,
    open_shared,
    vector_length,
)

try:
    import flair
    from flair.data import Sentence
    from flair.embeddings import TokenEmbeddings
    from flair.embeddings.base import register_embeddings
except ImportError as error:
    raise missing_package("flair", "flair") from error

_MODES: dict[str, Layers] = {"auto": "auto", "all": "concat", "top": "top", "average": "average"}


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):
    """Vectors of a frozen biLM for flair's taggers and classifiers.

    `embedding_mode`: "auto" as in `Elmo.embed`; "all" concatenates the layers, "top" is the last layer, "average"
    the mean of the layers. A saved tagger contains the model, so it can be loaded without the model's folder.
    """

    embeddings_name = "elmo.integrations.flair.ElmoEmbeddings"

    def __init__(
        self,
        model: ModelSource = None,
        embedding_mode: Literal["auto", "all", "top", "average"] = "auto",
        *,
        precision: str = "auto",
    ) -> None:
        if embedding_mode not in _MODES:
            raise InputError(f"embedding_mode is {embedding_mode!r}; choose {', '.join(_MODES)}.")
        self.model = open_shared(model, precision=precision, device=str(flair.device))
        self.embedding_mode = embedding_mode
        self.name = f"elmo-{model if isinstance(model, str | Path) else 'default'}-{embedding_mode}"
        self.static_embeddings = True
        super().__init__()

    @property
    def embedding_length(self) -> int:
        """Return the length of a token's vector."""
        return vector_length(self.model, _MODES[self.embedding_mode])

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> None:
        words = [[token.text for token in sentence] for sentence in sentences]
        arrays = self.model.embed(words, layers=_MODES[self.embedding_mode])
        for sentence, array in zip(sentences, arrays, strict=True):
            vectors = torch.from_numpy(array).to(flair.device)
            for token, vector in zip(sentence, vectors, strict=True):
                token.set_embedding(self.name, vector)

    def to_params(self) -> dict[str, Any]:
        """Return what a saved tagger stores: the model itself and the settings."""
        settings = {"name": self.name, "embedding_mode": self.embedding_mode, "precision": self.model.precision}
        return {**settings, "archive": model_to_bytes(self.model)}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> "ElmoEmbeddings":
        """Restore the embeddings from what `to_params` returned."""
        model = model_from_bytes(params["archive"], precision=params["precision"], device=str(flair.device))
        embeddings = cls(model, embedding_mode=params["embedding_mode"], precision=params["precision"])
        embeddings.name = params["name"]
        return embeddings

    def __str__(self) -> str:
        return self.name
