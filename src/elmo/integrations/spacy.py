"""spaCy: the components "elmo" (vectors) and "elmo_tagger", and the layer "elmo.Tok2Vec.v1" for trainable components.

spaCy finds them by entry points, without an import. Its tokens are the words; whitespace tokens are not encoded and
have zero vectors. If sentence boundaries are set, each sentence is encoded separately.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt

from elmo.inference.layers import Layers
from elmo.integrations import (
    ModelSource,
    missing_package,
    model_from_bytes,
    model_to_bytes,
    open_shared,
    save_model,
    vector_length,
)
from elmo.model import Elmo
from elmo.tasks.taggers import load

try:
    import srsly
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch, registry
    from thinc.api import Model
    from thinc.shims import Shim
except ImportError as error:
    raise missing_package("spacy", "spacy") from error

Array = npt.NDArray[np.float32]
LayerSetting = Union[str, int, list[float]]  # noqa: UP007  # spaCy checks settings by this type
MODEL_FOLDER = "model"


def _list_words(item: Doc | Span | Token) -> list[Token]:
    """Return the tokens of a document or span, or a token itself, without whitespace."""
    return [token for token in ([item] if isinstance(item, Token) else item) if not token.is_space]


def _split_sentences(doc: Doc) -> list[list[Token]]:
    """Return the tokens of each sentence, without whitespace."""
    return [_list_words(sentence) for sentence in (doc.sents if doc.has_annotation("SENT_START") else [doc])]


def embed_docs(model: Elmo, docs: Sequence[Doc], layers: Layers) -> list[Array]:
    """Return one array (T, dimensions) per document; whitespace tokens have zeros."""
    sentences = [(number, tokens) for number, doc in enumerate(docs) for tokens in _split_sentences(doc)]
    vectors = [np.zeros((len(doc), vector_length(model, layers)), dtype=np.float32) for doc in docs]
    encoded = model.embed([[token.text for token in tokens] for _, tokens in sentences], layers=layers)
    for (number, tokens), array in zip(sentences, encoded, strict=True):
        vectors[number][[token.i for token in tokens]] = array
    return vectors


class _LazyModel:
    """A model that is opened when it is first needed, or restored from bytes."""

    _source: ModelSource
    precision: str
    device: str

    @property
    def elmo(self) -> Elmo:
        """The model, opened at first use; not named `model`, an attribute that spaCy inspects."""
        if not isinstance(self._source, Elmo):
            self._source = open_shared(self._source, precision=self.precision, device=self.device)
        return self._source

    def _restore(self, archive: bytes) -> None:
        self._source = model_from_bytes(archive, precision=self.precision, device=self.device)


class ElmoPipe(_LazyModel, Pipe):
    """Sets `doc.tensor`, and hooks for the vectors and similarities of documents, spans and tokens.

    The model is opened for the first document. `to_disk` and `to_bytes` include it.
    """

    def __init__(self, name: str = "elmo", *, model: ModelSource, layers: Layers, precision: str, device: str) -> None:
        self.name = name
        self.layers, self.precision, self.device = layers, precision, device
        self._source = model

    def __call__(self, doc: Doc) -> Doc:
        """Set the vectors of one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the vectors of documents, `batch_size` at a time."""
        handle_error = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):
            batch = list(docs)
            try:
                for doc, vectors in zip(batch, embed_docs(self.elmo, batch, self.layers), strict=True):
                    set_vectors(doc, vectors)
            except Exception as error:
                handle_error(self.name, self, batch, error)
            yield from batch

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model into a folder."""
        Path(path).mkdir(parents=True, exist_ok=True)
        save_model(self.elmo, Path(path) / MODEL_FOLDER)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoPipe":
        """Use the model in a folder written by to_disk."""
        self._source = Path(path) / MODEL_FOLDER
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model as bytes."""
        return bytes(srsly.msgpack_dumps({"model": model_to_bytes(self.elmo)}))

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> "ElmoPipe":
        """Use the model in the bytes returned by to_bytes."""
        self._restore(srsly.msgpack_loads(content)["model"])
        return self


@Language.factory(
    "elmo",
    assigns=["doc.tensor"],
    default_config={"model": None, "layers": "auto", "precision": "auto", "device": "cpu"},
)
def make_pipe(
    nlp: Language,
    name: str,
    model: Union[str, None],  # noqa: UP007
    layers: LayerSetting,
    precision: str,
    device: str,
) -> ElmoPipe:
    """Make the component that `nlp.add_pipe("elmo")` adds."""
    return ElmoPipe(name, model=model, layers=cast(Layers, layers), precision=precision, device=device)


class ElmoTagger(Pipe):
    """Sets `token.pos_` and `doc.ents` with the included taggers; an empty name turns one off."""

    def __init__(self, name: str, *, pos: str, entities: str) -> None:
        self.name = name
        self._pos, self._entities = (load(tagger) if tagger else None for tagger in (pos, entities))

    def __call__(self, doc: Doc) -> Doc:
        """Tag one document."""
        sentences = _split_sentences(doc)
        words = [[token.text for token in tokens] for tokens in sentences]
        if self._pos:
            for tokens, prediction in zip(sentences, self._pos.predict(words), strict=True):
                for token, tag in zip(tokens, prediction.tags, strict=True):
                    token.pos_ = tag
        if self._entities:
            doc.ents = [
                Span(doc, tokens[start].i, tokens[end - 1].i + 1, label)
                for tokens, prediction in zip(sentences, self._entities.predict(words), strict=True)
                for label, start, end in prediction.spans
            ]
        return doc


@Language.factory(
    "elmo_tagger",
    assigns=["token.pos", "doc.ents"],
    default_config={"pos": "en-pos", "entities": "en-entities"},
)
def make_tagger(nlp: Language, name: str, pos: str, entities: str) -> ElmoTagger:
    """Make the component that `nlp.add_pipe("elmo_tagger")` adds."""
    return ElmoTagger(name, pos=pos, entities=entities)


def set_vectors(doc: Doc, vectors: Array) -> None:
    """Set the vectors of a document, its spans and its tokens from an array (T, dimensions)."""
    doc.tensor = vectors
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks.update(vector=_vector, has_vector=_has_vector, similarity=_similarity)


def _vector(item: Doc | Span | Token) -> Array:
    """Return the vector of a token, or the mean vector of a document or span, without whitespace tokens."""
    tensor = item.doc.tensor
    indices = [token.i for token in _list_words(item)]
    return np.asarray(tensor[indices].mean(axis=0) if indices else np.zeros(tensor.shape[1], dtype=np.float32))


def _has_vector(item: Doc | Span | Token) -> bool:
    return bool(_list_words(item))


def _similarity(item: Doc | Span | Token, other: Any) -> float:
    # Without this hook, spaCy returns 1.0 for two tokens with the same spelling, even in different sentences.
    norm = float(np.linalg.norm(item.vector) * np.linalg.norm(other.vector))
    return float(np.dot(item.vector, other.vector)) / norm if norm else 0.0


class ElmoShim(_LazyModel, Shim):
    """The frozen model in a thinc layer: opened at first use, saved with the layer's weights."""

    def __init__(self, source: ModelSource, precision: str, device: str) -> None:
        super().__init__(None)
        self._source, self.precision, self.device = source, precision, device

    def copy(self) -> "ElmoShim":
        """Return a copy that shares the model."""
        return ElmoShim(self._source, self.precision, self.device)

    def finish_update(self, optimizer: Any) -> None:
        """Do nothing: the model is frozen."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: the model stays on its own device."""

    def to_bytes(self) -> bytes:
        """Return the model as bytes."""
        return model_to_bytes(self.elmo)

    def from_bytes(self, data: bytes) -> "ElmoShim":
        """Use the model in the bytes returned by to_bytes."""
        self._restore(data)
        return self


@registry.architectures("elmo.Tok2Vec.v1")
def build_tok2vec(
    model: Union[str, None] = None,  # noqa: UP007
    layers: LayerSetting = "auto",
    precision: str = "auto",
    device: str = "cpu",
) -> Model[list[Doc], list[Array]]:
    """Build the embedding layer of a tagger, parser or NER, with a frozen model: documents -> one vector per token.

    `layers` is as in `Elmo.embed`. The dropout of the training settings applies to the vectors.
    """
    return Model(
        "elmo",
        _forward,
        init=_initialize,
        dims={"nO": None},
        shims=[ElmoShim(model, precision, device)],
        attrs={"layers": layers, "dropout_rate": 0.0},
    )


def _initialize(layer: Any, X: Any = None, Y: Any = None) -> None:  # noqa: N803
    layer.set_dim("nO", vector_length(layer.shims[0].elmo, layer.attrs["layers"]))


def _forward(layer: Any, docs: list[Doc], is_train: bool) -> tuple[list[Any], Callable[[list[Any]], list[Doc]]]:
    arrays = [layer.ops.asarray(array) for array in embed_docs(layer.shims[0].elmo, docs, layer.attrs["layers"])]
    if is_train and (rate := layer.attrs["dropout_rate"]):
        arrays = [array * layer.ops.get_dropout_mask(array.shape, rate) for array in arrays]
    return arrays, lambda gradients: docs
