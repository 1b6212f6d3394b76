"""Elmo, the facade: open a model, turn text into contextual vectors, save it. Networks are in nn/."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.location import as_path
from elmo.checkpoint.open import Format, open_checkpoint
from elmo.checkpoint.source import DEFAULT_MODEL, models_by_script, push_folder
from elmo.checkpoint.weights import Storage
from elmo.config import ContextConfig, ModelConfig
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.inference.context import ContextReader
from elmo.inference.layers import Comparison, LayerChoice, Layers, choose_layers, cosine
from elmo.inference.precision import Precision
from elmo.inference.runtime import Runtime
from elmo.inference.scoring import SentenceScore, score_batches
from elmo.inference.substitution import Substitute, find_run_substitutes, find_substitutes
from elmo.inference.word_encoder import DEFAULT_BYTES, CacheInfo
from elmo.nn.bilm import BiLM
from elmo.nn.build import build_bilm, load_bilm, weights_of
from elmo.progress import html_table, progress_bar
from elmo.text.batch import CharBatch, pack
from elmo.text.sentence_input import Sentence, Tokenizer, WordIndex, read_pointed, read_sentence, read_sentences
from elmo.text.tokenize import Word
from elmo.text.units import ScriptWatch, Tokenization
from elmo.text.vocabulary import is_punctuation

Array = npt.NDArray[np.float32]
# Sentences side by side make multiplication fast; the tokens bound the memory of a batch's vectors.
SENTENCES_PER_BATCH, TOKENS_PER_BATCH = 128, 16384
SENTENCES_READ_AHEAD, WORDS_READ_AHEAD = 1024, 65536
Pooling: TypeAlias = Literal["auto", "weighted", "mean", "max"]
Device: TypeAlias = str | torch.device


def _keep(array: Array) -> Array:
    return array


class Elmo:
    """A bidirectional language model: every word of a sentence gets its vectors in that sentence."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        precision: str = "float32",
        device: Device = "cpu",
        state: Literal["zero", "carry"] = "zero",
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
        literal_boundaries: bool = False,
    ) -> None:
        """Make a model of an opened checkpoint; most callers want Elmo.from_pretrained.

        `literal_boundaries` reads the words `<S>` and `</S>` as boundaries, as the original programs did.
        """
        if state not in ("zero", "carry"):
            raise ConfigError(f"state is {state!r}; choose 'zero' (same sentence, same vector) or 'carry'.")
        if not isinstance(checkpoint, Checkpoint):
            raise InputError(
                f"Elmo(…) takes an opened checkpoint, not {checkpoint!r:.60}; open a model with "
                f"Elmo.from_pretrained({checkpoint!r:.60})."
            )
        self._checkpoint = checkpoint
        if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 0:
            raise ConfigError(f"cache_bytes is {cache_bytes!r}; it must be a whole number of bytes, 0 or more.")
        self._make_runtime = functools.partial(
            Runtime, precision=precision, carry=state == "carry", num_threads=num_threads, cache_bytes=cache_bytes
        )
        self._runtime = self._make_runtime(load_bilm(checkpoint), device=device)
        self.indexer = checkpoint.indexer(literal_boundaries=literal_boundaries)
        self.vocabulary = checkpoint.make_vocabulary()
        self.scripts = ScriptWatch(self.vocabulary.words if self.vocabulary else None, models_by_script)
        context = checkpoint.context
        self._context = None if context is None else ContextReader(context, self.word_vectors, self.tokenization)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        format: Format | None = None,
        precision: str = "float32",
        device: Device = "cpu",
        state: Literal["zero", "carry"] = "zero",
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
        token_embeddings: str | Path | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
    ) -> Elmo:
        """Open a model: a folder, an .hdf5 or .zip file, an alias of an official model, or a hub id.

        Without a source, the default model. `format` overrides the detection; `state="carry"` keeps the LSTM
        state from call to call as the original programs did; `token_embeddings` is a file of cached word
        vectors beside an HDF5 model; `local_files_only` makes no network call.

        `precision`: "float32", "bfloat16", "int8", or "auto" for the fastest this CPU has; one it has not
        becomes float32, and the log says so. `num_threads`: by default as many as torch uses.
        `device`: such as "cpu" or "cuda"; "auto" is a GPU if there is one.
        `cache_bytes`: for vectors of words that were seen before, which depend on their spelling alone.
        """
        given = {"format": format, "token_embeddings": token_embeddings, "revision": revision}
        for name, value in given.items():
            if source is None and value is not None:
                raise InputError(f"{name} was given without a model; say which model is meant, or leave it out.")
        checkpoint = open_checkpoint(
            DEFAULT_MODEL if source is None else source,
            format=format,
            token_embeddings=token_embeddings,
            revision=revision,
            local_files_only=local_files_only,
        )
        return cls(
            checkpoint,
            precision=precision,
            device=device,
            state=state,
            num_threads=num_threads,
            cache_bytes=cache_bytes,
        )

    @classmethod
    def from_config(cls, config: ModelConfig, *, seed: int = 0, vocabulary: Sequence[str] | None = None) -> Elmo:
        """Make a model with random weights, the same for the same seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            weights = weights_of(build_bilm(config))
        words = None if vocabulary is None else tuple(vocabulary)
        return cls(
            Checkpoint(config, weights, vocabulary=words, origin={"format": "random", "source": f"seed {seed}"})
        )

    @property
    def config(self) -> ModelConfig:
        """What the model is made of."""
        return self._checkpoint.config

    @property
    def tokenization(self) -> Tokenization:
        """How the model splits texts into words, and words into the units that it reads."""
        return self.indexer.tokenization

    @property
    def context(self) -> ContextConfig | None:
        """The settings of the context layer, if the model has one; elmo.fuse adds one."""
        return None if self._context is None else self._context.config

    @property
    def meaning_layers(self) -> Literal["meaning", "average"]:
        """The layers by which meanings are compared: "meaning" with a context layer, else "average"."""
        return "average" if self._context is None else "meaning"

    @property
    def bilm(self) -> BiLM:
        """The network itself."""
        return self._runtime.bilm

    @property
    def runtime(self) -> Runtime:
        """What runs the network without gradients; layers on this model share it."""
        return self._runtime

    @property
    def device(self) -> torch.device:
        """Where the network is now."""
        return next(self.bilm.parameters()).device

    def to(self, device: Device) -> Elmo:
        """Move the model to a device, such as "cuda" or "auto" for the best of this machine, and return it."""
        carried = self._runtime.carried
        self._runtime = self._make_runtime(self.bilm, device=device)
        if carried is not None:
            self._runtime.carried = carried
        return self

    @property
    def dim(self) -> int:
        """2·D: the length of a word's vector in one layer."""
        return self.config.vector_dim

    def word_shape(self, layers: Layers = "average") -> tuple[int, ...]:
        """Return the shape of one word's vectors: (2D,), ((L+1)·2D,) for "concat", (L+1, 2D) for "all"."""
        choice = self._choose(layers)
        if choice.with_context:
            assert self._context is not None
            return (self.dim + self._context.config.dim,)
        return {"one": (self.dim,), "all": (choice.num_vectors, self.dim)}.get(
            choice.layout, (choice.num_vectors * self.dim,)
        )

    def sentence_shape(self, pooling: Pooling = "auto", layers: Layers | None = None) -> tuple[int, ...]:
        """Return the shape of what `encode` returns for one sentence."""
        if self.choose_pooling(pooling, layers) == "weighted":
            assert self._context is not None
            return (self._context.sentence_dim,)
        return self.word_shape("average" if layers is None else layers)

    def get_sentence_embedding_dimension(self) -> int:
        """Return the length of the vectors that `encode` returns, by the name sentence-transformers has for it."""
        return self.sentence_shape()[0]

    @property
    def num_layers(self) -> int:
        """L + 1: the layers of the language model and the word vectors below them."""
        return self._runtime.bilm.num_layers

    @property
    def state(self) -> Literal["zero", "carry"]:
        """Where each sentence starts: from zero, or where the one before it ended."""
        return "zero" if self._runtime.carried is None else "carry"

    @property
    def precision(self) -> Precision:
        """The precision of the matrix multiplications."""
        return self._runtime.precision

    @property
    def num_threads(self) -> int:
        """How many threads compute."""
        return self._runtime.workers.num_threads

    def cache_info(self) -> CacheInfo:
        """Return hits, misses and size of the word cache."""
        return self._runtime.cache.info()

    def clear_cache(self) -> None:
        """Empty the word cache."""
        self._runtime.cache.clear()

    def __repr__(self) -> str:
        origin = self._checkpoint.origin
        name = origin.get("source", "new")
        return f"Elmo({name!r}, {self.num_layers} layers of {self.dim}, {self.precision}, {self.device})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("layers", self.num_layers), ("dimensions", self.dim)]
        if self.vocabulary is not None:
            rows.append(("words of the vocabulary", len(self.vocabulary)))
        if self.context is not None:
            rows.append(("dimensions of the context layer", self.context.dim))
        rows += [("precision", self.precision), ("device", self.device), ("state", self.state)]
        return html_table(rows, caption=f"Elmo {self._checkpoint.origin.get('source', 'new')}")

    def tokenize(self, text: str, *, split_on_spaces: bool = False) -> list[Word]:
        """Return the words of a text with their character offsets."""
        if not isinstance(text, str):
            raise InputError(f"The text is of type {type(text).__name__}; a string was expected.")
        return self._tokenizer(split_on_spaces)(text)

    @overload
    def embed(  # type: ignore[overload-overlap]  # a str is an iterable of strings too; the first match wins
        self, sentences: str, *, layers: Layers = ..., split_on_spaces: bool = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., convert_to_numpy: Literal[True] = ...,
        convert_to_tensor: Literal[False] = ..., normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> Array: ...  # fmt: skip
    @overload
    def embed(
        self, sentences: Iterable[Sentence], *, layers: Layers = ..., split_on_spaces: bool = ...,
        batch_size: int | None = ..., show_progress_bar: bool = ..., convert_to_numpy: Literal[True] = ...,
        convert_to_tensor: Literal[False] = ..., normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> list[Array]: ...  # fmt: skip
    @overload
    def embed(  # type: ignore[overload-overlap]
        self, sentences: str, *, layers: Layers = ..., split_on_spaces: bool = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., convert_to_numpy: bool = ..., convert_to_tensor: bool = ...,
        normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def embed(
        self, sentences: Iterable[Sentence], *, layers: Layers = ..., split_on_spaces: bool = ...,
        batch_size: int | None = ..., show_progress_bar: bool = ..., convert_to_numpy: bool = ...,
        convert_to_tensor: bool = ..., normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> list[Tensor]: ...  # fmt: skip
    def embed(
        self,
        sentences: str | Iterable[Sentence],
        *,
        layers: Layers = "average",
        split_on_spaces: bool = False,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        device: Device | None = None,
    ) -> Array | list[Array] | Tensor | list[Tensor]:
        """Return one array per sentence, one row per word, in the order given.

        A string is one sentence and returns one array; a list of strings, or of lists of words, returns a list.
        `layers`: "average", "top", a number or L+1 weights: (T, 2D); "concat" (T, (L+1)·2D); "all"
        (L+1, T, 2D). "meaning", for models with a context layer of d dimensions: (T, 2D + d), the top layer
        beside the context vector. The arrays are float32.

        As in sentence-transformers: `batch_size` sentences are computed together (by default as many as fit well;
        the vectors do not depend on it), `convert_to_tensor` or `convert_to_numpy=False` returns tensors on the
        model's device, `normalize_embeddings` scales each word's vector to length 1, and `device` moves the model.
        """
        choice = self._choose(layers)
        words, single = self._read(sentences, split_on_spaces)
        if device is not None:
            self.to(device)
        finish = _normalize if normalize_embeddings else _keep
        arrays = self._embed_words(words, choice, finish, batch_size=batch_size, show_progress=show_progress_bar)
        if convert_to_tensor or not convert_to_numpy:
            tensors = [torch.from_numpy(array).to(self.device) for array in arrays]
            return tensors[0] if single else tensors
        return arrays[0] if single else arrays

    @overload
    def embed_iter(
        self, sentences: Iterable[Sentence], *, layers: Layers = ..., split_on_spaces: bool = ...,
        read_ahead: int = ..., with_words: Literal[False] = ...,
    ) -> Iterator[Array]: ...  # fmt: skip
    @overload
    def embed_iter(
        self, sentences: Iterable[Sentence], *, layers: Layers = ..., split_on_spaces: bool = ...,
        read_ahead: int = ..., with_words: Literal[True],
    ) -> Iterator[tuple[list[str], Array]]: ...  # fmt: skip
    def embed_iter(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: Layers = "average",
        split_on_spaces: bool = False,
        read_ahead: int = SENTENCES_READ_AHEAD,
        with_words: bool = False,
    ) -> Iterator[Array] | Iterator[tuple[list[str], Array]]:
        """Return the arrays of embed one by one, in the order given, for an iterable of any length.

        Memory is bounded: at most `read_ahead` sentences are read and embedded at a time, and fewer where they
        are long (with state="carry" all of them, as the rows of one batch). `with_words` returns pairs of a
        sentence's words and its array.
        """
        choice = self._choose(layers)
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise InputError("embed_iter takes an iterable of sentences; for one sentence use embed.")
        if not isinstance(read_ahead, int) or read_ahead < 1:
            raise InputError(f"read_ahead is {read_ahead!r}; it must be a whole number of sentences, 1 or more.")
        pairs = self._embed_windows(sentences, choice, self._tokenizer(split_on_spaces), read_ahead)
        return pairs if with_words else (array for _, array in pairs)

    @overload
    def encode(
        self, sentences: str | Iterable[Sentence], *, pooling: Pooling = ..., normalize: bool = ...,
        layers: Layers | None = ..., split_on_spaces: bool = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., convert_to_numpy: Literal[True] = ...,
        convert_to_tensor: Literal[False] = ..., normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> Array: ...  # fmt: skip
    @overload
    def encode(
        self, sentences: str | Iterable[Sentence], *, convert_to_tensor: Literal[True], pooling: Pooling = ...,
        normalize: bool = ..., layers: Layers | None = ..., split_on_spaces: bool = ...,
        batch_size: int | None = ..., show_progress_bar: bool = ..., convert_to_numpy: bool = ...,
        normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def encode(
        self, sentences: str | Iterable[Sentence], *, pooling: Pooling = ..., normalize: bool = ...,
        layers: Layers | None = ..., split_on_spaces: bool = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., convert_to_numpy: bool = ..., convert_to_tensor: bool = ...,
        normalize_embeddings: bool = ..., device: Device | None = ...,
    ) -> Array | Tensor | list[Tensor]: ...  # fmt: skip
    def encode(
        self,
        sentences: str | Iterable[Sentence],
        *,
        pooling: Pooling = "auto",
        normalize: bool = False,
        layers: Layers | None = None,
        split_on_spaces: bool = False,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        device: Device | None = None,
    ) -> Array | Tensor | list[Tensor]:
        """Return one vector per sentence, (N, dimensions); (dimensions,) for a single string.

        `pooling`: "mean" or "max" of the words' vectors in `layers` ("average" if not given). "weighted", for
        models with a context layer: the sum of the words' static vectors stands beside that of their centred
        vectors in layer 0, frequent words count little, and what all sentences share is removed; it takes no
        `layers`, and its vectors have the length 1. "auto": "weighted" if the model has a context layer and
        `layers` is not given, else "mean".

        An empty sentence has a vector of zeros. `normalize` scales each vector to length 1. The other arguments
        are those of `embed` and of sentence-transformers: `normalize_embeddings` is their name for `normalize`,
        `convert_to_tensor` returns one tensor, `convert_to_numpy=False` alone a list of tensors.
        """
        chosen = self.choose_pooling(pooling, layers)
        choice = self._choose("average" if layers is None else layers)
        _check_batch_size(batch_size)
        words, single = self._read(sentences, split_on_spaces)
        if device is not None:
            self.to(device)
        if chosen == "weighted":
            assert self._context is not None
            self.scripts.check(words)
            vectors = self._context.encode(words)
        else:
            pool = functools.partial(_pool, pooling=chosen)
            vectors = np.stack(
                self._embed_words(words, choice, pool, batch_size=batch_size, show_progress=show_progress_bar)
            )
            if normalize or normalize_embeddings:
                vectors = _normalize(vectors)
        if convert_to_tensor or not convert_to_numpy:
            tensor = torch.from_numpy(vectors).to(self.device)
            return tensor[0] if single else tensor if convert_to_tensor else list(tensor)
        return cast(Array, vectors[0] if single else vectors)

    def word_vectors(self, words: Sequence[str]) -> Array:
        """Return the vectors (n, D) that words have without a sentence: layer 0, which both directions share."""
        found = np.zeros((len(words), self.config.encoder.output_dim), dtype=np.float32)
        for start in range(0, len(words), WORDS_READ_AHEAD):
            batch = self.indexer.batch([words[start : start + WORDS_READ_AHEAD]])
            rows = self._runtime.encode_words(batch)[batch.word_index[0]]
            rows = rows if batch.groups is None else batch.groups.average(rows)
            found[start : start + len(rows) - 2] = rows[1:-1].cpu().numpy()
        return found

    @overload
    def context_vectors(  # type: ignore[overload-overlap]
        self, sentences: str, *, split_on_spaces: bool = ...
    ) -> Array: ...
    @overload
    def context_vectors(self, sentences: Iterable[Sentence], *, split_on_spaces: bool = ...) -> list[Array]: ...
    def context_vectors(
        self, sentences: str | Iterable[Sentence], *, split_on_spaces: bool = False
    ) -> Array | list[Array]:
        """Return the context layer alone, (T, d) per sentence: what the words around each word are about.

        A row has the length 1 or less, 0 for a word without neighbours. The model needs a context layer.
        """
        if self._context is None:
            raise InputError("This model has no context layer; add one with elmo fuse.")
        words, single = self._read(sentences, split_on_spaces)
        arrays: list[Array] = []
        for start in range(0, len(words), SENTENCES_PER_BATCH):
            arrays += self._context.read(words[start : start + SENTENCES_PER_BATCH])
        return arrays[0] if single else arrays

    def add_context(
        self,
        sentences: Sequence[Sequence[str]],
        top: Sequence[Array],
        *,
        spans: Sequence[Sequence[tuple[int, int]]] | None = None,
    ) -> list[Array]:
        """Return the vectors of layers="meaning", (T, 2D + d), from the top layer (T, 2D) of sentences.

        With `spans`, those of phrases, (N, 2D + d), from their means in the top layer (N, 2D).
        """
        if not sentences:
            return []
        contexts = self.context_vectors(sentences) if spans is None else []
        assert self._context is not None
        if spans is not None:
            contexts = list(map(self._context.read_spans, sentences, spans))
        return [self._context.join(*pair) for pair in zip(top, contexts, strict=True)]

    def embed_spans(
        self,
        sentence: Sentence,
        spans: Sequence[tuple[int, int]],
        *,
        layers: Layers = "average",
        split_on_spaces: bool = False,
    ) -> Array:
        """Return one vector for each phrase of a sentence: the mean over a half-open range of words.

        (N, 2D), or (N, L+1, 2D) for layers="all". In "meaning", the context of a phrase is what surrounds it: its
        own words are not part of it.
        """
        words = read_sentence(sentence, self._tokenizer(split_on_spaces))
        if not isinstance(spans, Sequence):
            raise InputError(f"spans is {spans!r:.60}; give a list of ranges of words, such as [(2, 4)].")
        for span in spans:
            if not _is_span(span, len(words)):
                raise InputError(
                    f"The span {span!r:.60} does not lie in a sentence of {len(words)} words; give a start "
                    "and an end with 0 <= start < end <= the number of words."
                )
        return self.embed_phrases([words], [[(int(start), int(end)) for start, end in spans]], layers=layers)[0]

    def embed_phrases(
        self,
        sentences: Sequence[Sequence[str]],
        spans: Sequence[Sequence[tuple[int, int]]],
        *,
        layers: Layers = "average",
    ) -> list[Array]:
        """Return what embed_spans returns, for several sentences of words, each with spans of its own."""
        choice = self._choose(layers)
        arrays = self._embed_words(
            [list(words) for words in sentences], self._choose("top") if choice.with_context else choice
        )
        found = [_average_spans(array, own) for array, own in zip(arrays, spans, strict=True)]
        return self.add_context(sentences, found, spans=spans) if choice.with_context else found

    def similarity(
        self,
        sentence_a: Sentence,
        sentence_b: Sentence,
        *,
        index_a: WordIndex | None = None,
        index_b: WordIndex | None = None,
        layers: Layers | None = None,
        split_on_spaces: bool = False,
    ) -> float:
        """Return the cosine of two words in their sentences, -1 to 1.

        Mark each word (or phrase) with brackets, "I went to the [bank]", or name it by its index among the
        words of the sentence; a half-open range (start, end) names a phrase. `layers`: "meaning" if the model has
        a context layer, else "average".
        """
        indexes = {"index_a": index_a, "index_b": index_b}
        return self.compare(
            sentence_a, sentence_b, **indexes, layers=layers, split_on_spaces=split_on_spaces
        ).cosine

    def compare(
        self,
        sentence_a: Sentence,
        sentence_b: Sentence,
        *,
        index_a: WordIndex | None = None,
        index_b: WordIndex | None = None,
        layers: Layers | None = None,
        split_on_spaces: bool = False,
    ) -> Comparison:
        """Return what `similarity` returns together with the cosine of the two words in each layer."""
        layers = self.meaning_layers if layers is None else layers
        if isinstance(layers, str) and layers == "all":
            raise InputError(
                "similarity compares two vectors; choose 'meaning', 'average', 'top', 'concat' or one layer."
            )
        choice = self._choose(layers)
        tokenizer = self._tokenizer(split_on_spaces)
        (words_a, span_a), (words_b, span_b) = (
            read_pointed(sentence_a, index_a, tokenizer, name="index_a"),
            read_pointed(sentence_b, index_b, tokenizer, name="index_b"),
        )
        sentences, spans = [words_a, words_b], [slice(*span_a), slice(*span_b)]
        arrays = self._embed_words(sentences, self._choose("all"))
        first, second = (array[:, span].mean(axis=1) for array, span in zip(arrays, spans, strict=True))
        chosen = [choice.lay_out((choice.matrix @ each)[None])[0] for each in (first, second)]
        if self._context is not None and choice.with_context:
            contexts = map(self._context.read_spans, sentences, ([span_a], [span_b]))
            tops = (first[-1:], second[-1:])
            chosen = [self._context.join(*pair)[0] for pair in zip(tops, contexts, strict=True)]
        return Comparison(
            cosine=float(cosine(*chosen)),
            cosine_by_layer=np.asarray(cosine(first, second)).tolist(),
            words_a=words_a[spans[0]],
            words_b=words_b[spans[1]],
        )

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sentences: str, *, split_on_spaces: bool = ...
    ) -> SentenceScore: ...
    @overload
    def score(self, sentences: Iterable[Sentence], *, split_on_spaces: bool = ...) -> list[SentenceScore]: ...
    def score(
        self, sentences: str | Iterable[Sentence], *, split_on_spaces: bool = False
    ) -> SentenceScore | list[SentenceScore]:
        """Return how well the language model foresaw each word, over its whole vocabulary.

        A model of characters scores each unit, and a word that has several is listed as its units.
        A string returns one score, a list of sentences a list, in the order given. The model needs its softmax.
        """
        words, single = self._read(sentences, split_on_spaces)
        words = [self.tokenization.read(each).units for each in words]
        scores = score_batches(self._runtime, self.vocabulary, words, self._pack(words))
        return scores[0] if single else scores

    def substitutes(
        self,
        sentence: Sentence,
        index: WordIndex | None = None,
        *,
        top_k: int = 10,
        punctuation: bool = False,
        same_word: bool = False,
        split_on_spaces: bool = False,
        add_period: bool | None = None,
    ) -> list[Substitute]:
        """Return the words the language model would put in place of one, best first.

        Name the word by its index, or mark it with brackets: "I went to the [bank]". Words are ranked by the
        product of both directions' probabilities, divided by the word's own frequency. `punctuation` and the word
        itself (`same_word`) are left out unless asked for; `<S>`, `</S>` and `<UNK>` are never offered. For a word
        of several units, in a model of characters, runs of as many units are offered. A string without
        punctuation at its end is read as if it ended with a period; `add_period` says so for lists of words too.
        """
        words, (start, end) = read_pointed(sentence, index, self._tokenizer(split_on_spaces), name="index")
        reads_characters = self.tokenization.reads_characters
        if end - start > 1 and not reads_characters:
            raise InputError(
                f"The brackets hold {end - start} words, {' '.join(words[start:end])!r:.80}; mark one word, "
                "because one word is put in its place."
            )
        add_period = isinstance(sentence, str) if add_period is None else add_period
        period = "。" if reads_characters else "."
        if add_period and not is_punctuation(words[-1]) and period in (self.vocabulary or ()):
            words = [*words, period]  # people leave it out, but the sentences of the training text end with it
        self.scripts.check([words])
        if reads_characters:
            sentence_units = self.tokenization.read(words)
            ranges = sentence_units.ranges()
            return find_run_substitutes(
                self._runtime, self.indexer, self.vocabulary, sentence_units.units,
                (ranges[start][0], ranges[end - 1][1]),
                top_k=top_k, punctuation=punctuation, same_word=same_word,
            )  # fmt: skip
        return find_substitutes(
            self._runtime, self.indexer, self.vocabulary, words, start,
            top_k=top_k, punctuation=punctuation, same_word=same_word,
        )  # fmt: skip

    def reset_state(self) -> None:
        """Forget what was read so far, with state="carry"."""
        if self._runtime.carried is None:
            raise InputError("This model keeps no state to reset; open it with state='carry' to keep one.")
        self._runtime.carried.reset()

    def checkpoint(self) -> Checkpoint:
        """Return the model as it is now, ready to be written in any format."""
        return replace(self._checkpoint, weights=weights_of(self.bilm))

    def save_pretrained(
        self, folder: str | Path, *, format: Literal["elmo", "hdf5"] = "elmo", storage: Storage = "float32"
    ) -> None:
        """Write the model to a folder that from_pretrained opens; "hdf5" is what bilm-tf and AllenNLP read.

        `storage`: "float32"; "float16", half as large; or "compact", also with the softmax in 8 bits.
        """
        if format not in ("elmo", "hdf5"):
            raise CheckpointError(f"format is {format!r}; a model is saved as 'elmo' or 'hdf5'.")
        path = as_path(folder, "The folder to save to")
        if format == "elmo":
            write_folder(self.checkpoint(), path, storage=storage)
        elif storage == "float32":
            write_hdf5(self.checkpoint(), path)
        else:
            raise CheckpointError(f"storage is {storage!r}, but HDF5 models are stored in float32; leave it out.")

    def push_to_hub(self, name: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the model to the Hugging Face hub as `name` and return its address."""
        import tempfile

        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            self.save_pretrained(folder)
            return push_folder(folder, name, private=private, token=token)

    def _embed_windows(
        self, sentences: Iterable[Sentence], choice: LayerChoice, tokenizer: Tokenizer, read_ahead: int
    ) -> Iterator[tuple[list[str], Array]]:
        max_words = WORDS_READ_AHEAD if self._runtime.carried is None else sys.maxsize
        window: list[list[str]] = []
        num_words = 0
        for number, sentence in enumerate(sentences):
            window.append(read_sentence(sentence, tokenizer, position=number))
            num_words += len(window[-1])
            if len(window) == read_ahead or num_words >= max_words:
                yield from zip(window, self._embed_words(window, choice), strict=True)
                window, num_words = [], 0
        if window:
            yield from zip(window, self._embed_words(window, choice), strict=True)

    def _embed_words(
        self,
        sentences: list[list[str]],
        choice: LayerChoice,
        finish: Callable[[Array], Array] = _keep,
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Array]:
        """Embed sentences of words; `finish` is what to keep of each array, which is its to change."""
        arrays: list[Array | None] = [None] * len(sentences)
        num_words = sum(map(len, sentences))
        with progress_bar(unit="sentences", num_bytes=num_words, shown=show_progress) as advance:
            for batch in self._pack(sentences, batch_size):
                for number, array in self._embed_batch(batch, sentences, choice):
                    arrays[number] = finish(array)
                advance(sum(len(sentences[number]) for number in batch.order), len(batch.order))
        return cast(list[Array], arrays)

    def _embed_batch(
        self, batch: CharBatch, sentences: list[list[str]], choice: LayerChoice
    ) -> Iterator[tuple[int, Array]]:
        rows = self._runtime.embed(batch, choice).cpu().numpy()
        contexts: Sequence[Array | None] = [None] * len(batch.order)
        scales = None
        if self._context is not None and choice.with_context:
            contexts = self._context.read([sentences[number] for number in batch.order])
            scales = self._context.scales_of(choice.lay_out(rows))
        start = 0
        for number, context in zip(batch.order, contexts, strict=True):
            # The boundaries are cut off. A copy lets go of the batch; a sentence alone is all of it.
            own = slice(start + 1, start + 1 + len(sentences[number]))
            array = choice.lay_out(rows[own])
            if self._context is not None and context is not None and scales is not None:
                yield number, self._context.join(array, context, scales[own])
            else:
                yield number, array if len(batch.order) == 1 else array.copy()
            start += len(sentences[number]) + 2

    def _tokenizer(self, on_spaces: bool) -> Tokenizer:
        return self.tokenization.tokenizer(on_spaces=on_spaces)

    def _read(self, sentences: str | Iterable[Sentence], on_spaces: bool) -> tuple[list[list[str]], bool]:
        """Return the words of each sentence, and whether it is a single one."""
        tokenizer = self._tokenizer(on_spaces)
        if isinstance(sentences, str):
            return read_sentences([sentences], tokenizer), True
        return read_sentences(sentences, tokenizer), False

    def _choose(self, layers: Layers) -> LayerChoice:
        return choose_layers(layers, self.num_layers, has_context=self._context is not None)

    def choose_pooling(self, pooling: Pooling, layers: Layers | None) -> Literal["weighted", "mean", "max"]:
        """Return the pooling that `encode` uses if it is asked for this one; InputError if it cannot."""
        if pooling not in get_args(Pooling):
            raise InputError(f"pooling is {pooling!r}; choose {', '.join(get_args(Pooling))}.")
        if pooling == "weighted" and self._context is None:
            raise InputError("pooling is 'weighted', but this model has no context layer; add one with elmo fuse.")
        if pooling == "weighted" and layers is not None:
            raise InputError(
                "pooling is 'weighted', which takes no layers; leave layers out, or choose 'mean' or 'max'."
            )
        if pooling == "auto":
            return "mean" if self._context is None or layers is not None else "weighted"
        return pooling

    def _pack(self, sentences: list[list[str]], batch_size: int | None = None) -> Iterable[CharBatch]:
        _check_batch_size(batch_size)
        self.scripts.check(sentences)
        # Carried state belongs to rows, so those sentences are one batch in the order given.
        if self._runtime.carried is not None:
            return [self.indexer.batch(sentences)]
        return pack(
            sentences,
            self.indexer,
            token_budget=TOKENS_PER_BATCH,
            sentence_budget=batch_size or SENTENCES_PER_BATCH,
        )


def _check_batch_size(batch_size: int | None) -> None:
    whole = isinstance(batch_size, int) and not isinstance(batch_size, bool)
    if batch_size is not None and (not whole or batch_size < 1):
        raise InputError(f"batch_size is {batch_size!r}; it must be a whole number of sentences, 1 or more.")


def _normalize(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return cast(Array, vectors / np.maximum(lengths, np.finfo(np.float32).tiny))


def _pool(array: Array, pooling: str) -> Array:
    if array.shape[-2] == 0:
        return np.zeros((*array.shape[:-2], array.shape[-1]), dtype=np.float32)
    return cast(Array, array.mean(axis=-2) if pooling == "mean" else array.max(axis=-2))


def _average_spans(array: Array, spans: Sequence[tuple[int, int]]) -> Array:
    """(T, dimensions) or (L+1, T, 2D) -> one vector per span, (N, dimensions) or (N, L+1, 2D)."""
    if not spans:
        return np.zeros((0, *array.shape[:-2], array.shape[-1]), dtype=np.float32)
    return np.stack([array[..., start:end, :].mean(axis=-2) for start, end in spans])


def _is_span(span: object, num_words: int) -> bool:
    if not isinstance(span, Sequence | np.ndarray) or len(span) != 2:
        return False
    start, end = span
    whole = isinstance(start, int | np.integer) and isinstance(end, int | np.integer)
    return whole and bool(0 <= start < end <= num_words)
