"""The class Elmo: open a model, embed text, save the model. On a CPU it does not need torch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.open import Format, open_checkpoint
from elmo.checkpoint.shapes import draw_weights
from elmo.checkpoint.source import DEFAULT_MODEL, MODELS_BY_SCRIPT, MODELS_FOLDER, installed_models, push_folder
from elmo.checkpoint.weights import Storage
from elmo.config import ContextConfig, ModelConfig, Pooling
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.inference.context import Span, normalize
from elmo.inference.embedder import Embedder
from elmo.inference.layers import LayerChoice, Layers, cosine
from elmo.inference.runtime import Precision, int8_preserves_vectors, open_runtime
from elmo.inference.scoring import SentenceScore
from elmo.inference.substitution import Substitute, find_substitutes
from elmo.inference.words import DEFAULT_BYTES, CacheInfo
from elmo.kernels.library import find_library
from elmo.text.sentence_input import (
    Sentence,
    Tokenizer,
    WordIndex,
    check_batch_size,
    describe_value,
    find_marks,
    iterate_sentences,
    read_sentence,
    read_sentences,
    read_span,
    read_target,
    warn_of_single_words,
)
from elmo.text.tokenize import Word
from elmo.text.units import ScriptWatch, Tokenization
from elmo.text.vocabulary import is_punctuation

Array = npt.NDArray[np.float32]
Vectors = Array | Sequence[Array]
SENTENCES_READ_AHEAD, WORDS_READ_AHEAD = 1024, 65536
_CALLER = 3  # the stack level of a method's caller


class Elmo:
    """A bidirectional language model, which gives each word a vector that depends on its sentence."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        precision: str = "float32",
        device: str = "cpu",
        state: Literal["zero", "carry"] = "zero",
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
        literal_boundaries: bool = False,
    ) -> None:
        """Build a model from an opened checkpoint; most callers want Elmo.from_pretrained.

        With `literal_boundaries`, the words `<S>` and `</S>` are sentence boundaries, as in the original programs.
        """
        if state not in ("zero", "carry"):
            raise ConfigError(f"state is {state!r}; choose 'zero' (same sentence, same vector) or 'carry'.")
        if not isinstance(checkpoint, Checkpoint):
            raise InputError(
                f"Elmo(…) takes an opened checkpoint, not {checkpoint!r:.60}; open a model with "
                f"Elmo.from_pretrained({checkpoint!r:.60})."
            )
        if isinstance(cache_bytes, bool) or not isinstance(cache_bytes, int) or cache_bytes < 0:
            raise ConfigError(f"cache_bytes is {cache_bytes!r}; it must be a whole number of bytes, 0 or more.")
        self._checkpoint = checkpoint
        self._settings: dict[str, Any] = {
            "precision": precision,
            "device": str(device),
            "state": state,
            "num_threads": num_threads,
            "cache_bytes": cache_bytes,
            "literal_boundaries": literal_boundaries,
        }
        self._indexer = checkpoint.indexer(literal_boundaries=literal_boundaries)
        self.vocabulary = checkpoint.make_vocabulary()
        self._scripts = ScriptWatch(self.vocabulary.words if self.vocabulary else None, MODELS_BY_SCRIPT)
        self._runtime = open_runtime(
            checkpoint.config,
            checkpoint.weights,
            device=str(device),
            precision=precision,
            carry=state == "carry",
            num_threads=num_threads,
            cache_bytes=cache_bytes,
            check_int8=lambda: int8_preserves_vectors(checkpoint, self._indexer),
        )
        self._embedder = Embedder(checkpoint, self._runtime, self._indexer, self.vocabulary)

    def __getstate__(self) -> dict[str, Any]:
        # The runtime belongs to this process; a copy opens a new one and starts from a zero state.
        return {"checkpoint": self._checkpoint, **self._settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        format: Format | None = None,
        precision: str = "auto",
        device: str = "cpu",
        state: Literal["zero", "carry"] = "zero",
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
        revision: str | None = None,
        local_files_only: bool = False,
    ) -> Elmo:
        """Open a model: a folder, an .hdf5 or .zip file, an alias of an official model, or a hub id.

        Without a source, the default model is opened. `format` overrides format detection; `state="carry"` keeps the
        LSTM state between calls, as the original programs did; `local_files_only` prevents network access.

        `precision`: "float32", "int8", or "auto": int8 if its vectors have a mean cosine of 0.999 with float32 in
        every layer, else float32; on a GPU also "bfloat16". `num_threads`: by default one per core.
        `device`: such as "cpu" or "cuda"; "auto" is a GPU if there is one; all but "cpu" need torch.
        `cache_bytes`: the size of the cache of context-free word vectors, which depend only on the spelling.
        """
        checkpoint = open_checkpoint(
            DEFAULT_MODEL if source is None else source,
            format=format,
            revision=revision,
            local_files_only=local_files_only,
        )
        if precision == "auto" and _is_packaged(source):  # a test checks the int8 vectors of these models
            precision = "float32" if find_library() is None else "int8"
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
        """Build a model with random weights, which are the same for the same seed."""
        words = None if vocabulary is None else tuple(vocabulary)
        origin = {"format": "random", "source": f"seed {seed}"}
        return cls(Checkpoint(config, draw_weights(config, seed=seed), vocabulary=words, origin=origin))

    def _with_weights(self, weights: Mapping[str, Any]) -> Elmo:
        """Return a copy of this model with the same settings, in which `weights` replace those of the same names."""
        return Elmo(replace(self._checkpoint, weights={**self._checkpoint.weights, **weights}), **self._settings)

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""
        return self._checkpoint.config

    @property
    def tokenization(self) -> Tokenization:
        """The rules by which the model splits texts into words, and words into tokens."""
        return self._indexer.tokenization

    @property
    def context(self) -> ContextConfig | None:
        """The settings of the context layer, if the model has one; elmo.fuse adds one."""
        return None if self._checkpoint.context is None else self._checkpoint.context.config

    @property
    def device(self) -> str:
        """The device that the model runs on, such as "cpu"."""
        return self._runtime.device

    def to(self, device: str) -> Elmo:
        """Move the model to a device such as "cuda", or "auto" for the best available one, and return the model."""
        if str(device) != self.device:
            self.__setstate__({**self.__getstate__(), "device": str(device)})
        return self

    @property
    def dim(self) -> int:
        """2·D: the length of a word's vector in one layer."""
        return self.config.vector_dim

    def word_shape(self, layers: Layers = "auto") -> tuple[int, ...]:
        """Return the shape of one word's vectors: (2D,), ((L+1)·2D,) for "concat", (L+1, 2D) for "all"."""
        return self._embedder.word_shape(layers)

    def sentence_shape(self, pooling: Pooling = "auto", layers: Layers | None = None) -> tuple[int, ...]:
        """Return the shape of the vector that `encode` returns for one sentence."""
        return self._embedder.sentence_shape(pooling, layers)

    @property
    def num_layers(self) -> int:
        """The number of layers, L + 1: the L layers of the language model and the word vectors below them."""
        return self._runtime.num_layers

    @property
    def state(self) -> Literal["zero", "carry"]:
        """The initial state of each sentence: "zero", or "carry" for the final state of the sentence before it."""
        return "carry" if self._runtime.carries_state else "zero"

    @property
    def precision(self) -> Precision:
        """The precision of the matrix multiplications."""
        return self._runtime.precision_choice.precision

    @property
    def num_threads(self) -> int:
        """The number of threads used for computation."""
        return self._runtime.num_threads

    def cache_info(self) -> CacheInfo:
        """Return the hits, misses and size of the word cache."""
        return self._runtime.cache.info()

    def clear_cache(self) -> None:
        """Empty the word cache."""
        self._runtime.cache.clear()

    def __repr__(self) -> str:
        origin = self._checkpoint.origin
        name = origin.get("source", "new")
        return f"Elmo({name!r}, {self.num_layers} layers of {self.dim}, {self.precision}, {self.device})"

    @overload
    def tokenize(  # type: ignore[overload-overlap]
        self, text: str, *, split_on_spaces: bool = ...
    ) -> list[Word]: ...
    @overload
    def tokenize(self, text: Sequence[str], *, split_on_spaces: bool = ...) -> list[list[Word]]: ...
    def tokenize(self, text: str | Sequence[str], *, split_on_spaces: bool = False) -> Any:
        """Return the words of a text with their character offsets; a list of texts gives one list per text."""
        tokenizer = self._tokenizer(split_on_spaces)
        if isinstance(text, str):
            return tokenizer(text)
        texts = list(iterate_sentences(text))
        for position, sentence in enumerate(texts):
            if not isinstance(sentence, str):
                raise InputError(f"Sentence {position} is {describe_value(sentence)}; tokenize takes strings.")
        return [tokenizer(sentence) for sentence in texts]

    @overload
    def embed(  # type: ignore[overload-overlap]  # a str is an iterable of strings too; the first match wins
        self, sentences: str, *, layers: Layers = ..., split_on_spaces: bool = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., normalize_embeddings: bool = ...,
    ) -> Array: ...  # fmt: skip
    @overload
    def embed(
        self, sentences: Iterable[Sentence], *, layers: Layers = ..., split_on_spaces: bool = ...,
        batch_size: int | None = ..., show_progress_bar: bool = ..., normalize_embeddings: bool = ...,
    ) -> list[Array]: ...  # fmt: skip
    def embed(
        self,
        sentences: str | Iterable[Sentence],
        *,
        layers: Layers = "auto",
        split_on_spaces: bool = False,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
    ) -> Array | list[Array]:
        """Return one float32 array per sentence, in the order given, with one row per word.

        A string is one sentence and returns one array; a list of strings, or of lists of words, returns a list.
        Brackets are ordinary words; only `similarity` and `substitutes` use them as marks.
        `layers`: "average", "top", a number or L+1 weights: (T, 2D); "concat" (T, (L+1)·2D); "all"
        (L+1, T, 2D). "meaning", for models with a context layer of d dimensions: (T, 2D + d), the top layer
        concatenated with the context vector. "auto": "meaning" if the model has a context layer, else "average".

        As in sentence-transformers, `batch_size` sentences are computed together (the default depends on their
        lengths; the vectors do not depend on it), and `normalize_embeddings` scales each word's vector to length 1.
        """
        choice = self._embedder.choose(layers)
        warn_of_single_words(sentences, stacklevel=_CALLER)
        words, single = self._read(sentences, split_on_spaces)
        arrays = self._embedder.embed(words, choice, batch_size, show_progress_bar)
        if normalize_embeddings:
            arrays = list(map(normalize, arrays))
        return arrays[0] if single else arrays

    def embed_iter(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: Layers = "auto",
        split_on_spaces: bool = False,
        read_ahead: int = SENTENCES_READ_AHEAD,
    ) -> Iterator[Array]:
        """Return an iterator over the arrays of `embed`, in the order given, for an iterable of any length.

        Memory is bounded: at most `read_ahead` sentences are read and embedded at a time, or fewer if they are
        long (but with state="carry" always `read_ahead`, which are the rows of one batch).
        """
        choice = self._embedder.choose(layers)
        if isinstance(sentences, str):
            raise InputError("embed_iter takes an iterable of sentences; for one sentence use embed.")
        check_batch_size(read_ahead, "read_ahead")
        texts, tokenizer = iterate_sentences(sentences), self._tokenizer(split_on_spaces)
        words = (read_sentence(sentence, tokenizer, position=number) for number, sentence in enumerate(texts))
        most_words = sys.maxsize if self._runtime.carries_state else WORDS_READ_AHEAD
        return (
            array
            for window in _cut_windows(words, read_ahead, most_words)
            for array in self._embed_window(window, choice)
        )

    def encode(
        self,
        sentences: str | Iterable[Sentence],
        *,
        pooling: Pooling = "auto",
        layers: Layers | None = None,
        split_on_spaces: bool = False,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
    ) -> Array:
        """Return one vector per sentence, (N, dimensions); (dimensions,) for a single string.

        `pooling`: "head", for models with a sentence head: trained pooling of all layers, which depends on word
        order; a distilled head returns vectors in the space of its teacher. "weighted", for models with a context
        layer: weighted sums of the words' static vectors and of their centred vectors in layer 0, concatenated;
        frequent words have low weights, and directions common to all sentences are removed. Both accept no `layers`
        and return vectors of length 1. "mean" or "max": of the words' vectors in `layers` (default "average").
        "auto": the first of head, weighted and mean that the model supports; "mean" if `layers` is given.

        The vector of an empty sentence is zero. `normalize_embeddings` scales each vector to length 1. The other
        arguments are the same as for `embed`.
        """
        warn_of_single_words(sentences, stacklevel=_CALLER)
        words, single = self._read(sentences, split_on_spaces)
        vectors = self._embedder.encode(words, pooling, layers, batch_size, show_progress_bar)
        if normalize_embeddings:
            vectors = normalize(vectors)
        return vectors[0] if single else vectors

    def word_vectors(self, words: Sequence[str]) -> Array:
        """Return the context-free vectors (n, D) of words: layer 0, which both directions share."""
        return self._embedder.word_vectors(read_sentence(words, self._tokenizer(False)))

    @overload
    def context_vectors(  # type: ignore[overload-overlap]
        self, sentences: str, *, split_on_spaces: bool = ...
    ) -> Array: ...
    @overload
    def context_vectors(self, sentences: Iterable[Sentence], *, split_on_spaces: bool = ...) -> list[Array]: ...
    def context_vectors(
        self, sentences: str | Iterable[Sentence], *, split_on_spaces: bool = False
    ) -> Array | list[Array]:
        """Return the vectors of the context layer, (T, d) per sentence: the topic of the words around each word.

        The length of a row is at most 1, and 0 for a word without neighbors. The model needs a context layer.
        """
        words, single = self._read(sentences, split_on_spaces)
        arrays = self._embedder.contexts(words)
        return arrays[0] if single else arrays

    @overload
    def embed_spans(
        self, sentence: Sentence, spans: Sequence[Span], *, layers: Layers = ..., split_on_spaces: bool = ...
    ) -> Array: ...
    @overload
    def embed_spans(
        self, sentence: Sequence[Sentence], spans: Sequence[Sequence[Span]], *, layers: Layers = ...,
        split_on_spaces: bool = ...,
    ) -> list[Array]: ...  # fmt: skip
    def embed_spans(
        self,
        sentence: Sentence | Sequence[Sentence],
        spans: Sequence[Span] | Sequence[Sequence[Span]],
        *,
        layers: Layers = "auto",
        split_on_spaces: bool = False,
    ) -> Array | list[Array]:
        """Return one vector for each phrase of a sentence: the mean over a half-open range of words.

        The shape is (N, 2D), or (N, L+1, 2D) for layers="all". With "meaning", the context of a phrase does not
        include its own words. A list of sentences, with a list of spans for each, gives a list of arrays.
        """
        choice, tokenizer = self._embedder.choose(layers), self._tokenizer(split_on_spaces)
        if not isinstance(spans, Sequence):
            raise InputError(f"spans is {spans!r:.60}; give a list of ranges of words, such as [(2, 4)].")
        is_list = bool(spans) and all(_is_list_of_spans(span) for span in spans)
        is_list = is_list or (not spans and not isinstance(sentence, str) and not len(sentence))
        sentences: Sequence[Any] = sentence if is_list else [sentence]
        if is_list and len(sentences) != len(spans):
            raise InputError(
                f"There are {len(sentences)} sentences, but {len(spans)} lists of spans; give one for each."
            )
        words = [read_sentence(sentence, tokenizer, position=number) for number, sentence in enumerate(sentences)]
        checked = [
            [read_span(span, len(sentence)) for span in spans_of_sentence]
            for sentence, spans_of_sentence in zip(words, spans if is_list else [spans], strict=True)
        ]
        self._scripts.check(words)
        arrays = self._embedder.embed_spans(words, checked, choice)
        return arrays if is_list else arrays[0]

    @overload
    def similarity(  # type: ignore[overload-overlap]
        self, a: str, b: str, *, layers: Layers | None = ..., split_on_spaces: bool = ...
    ) -> float: ...
    @overload
    def similarity(
        self, a: Vectors | Sequence[str], b: Vectors | Sequence[str] | None = ..., *, layers: Layers | None = ...,
        split_on_spaces: bool = ...,
    ) -> Array: ...  # fmt: skip
    def similarity(
        self,
        a: str | Sequence[str] | Vectors,
        b: str | Sequence[str] | Vectors | None = None,
        *,
        layers: Layers | None = None,
        split_on_spaces: bool = False,
    ) -> float | Array:
        """Return the cosine of two words in their sentences, of two sentences, or a matrix of cosines.

        For two strings, mark a word (or phrase) in each with brackets, "I went to the [bank]"; by default, `layers`
        is "meaning" if the model has a context layer, else "average". Sentences without marks are compared by
        `encode`. Lists of such strings, or vectors (N, S), give the cosines (N, M) of all pairs; without `b`, `a` is
        compared with itself.
        """
        if isinstance(a, str) and isinstance(b, str):
            return float(cosine(*self._vectors_of([a, b], layers, split_on_spaces)))
        if isinstance(a, str) or isinstance(b, str):
            raise InputError("similarity compares two strings, two lists or two arrays; they must be of the same kind.")
        first = self._vectors_of(a, layers, split_on_spaces)
        second = first if b is None else self._vectors_of(b, layers, split_on_spaces)
        if first.shape[1] != second.shape[1]:
            raise InputError(
                f"The vectors have {first.shape[1]} and {second.shape[1]} dimensions; compare vectors of one method "
                "and its layers."
            )
        cosines: Array = normalize(first) @ normalize(second).T
        return cosines

    def _vectors_of(self, values: Any, layers: Layers | None, split_on_spaces: bool) -> Array:
        """Return the vectors of the marked words, of the sentences if no word is marked, or the given vectors."""
        values = values if hasattr(values, "dtype") else list(iterate_sentences(values))
        if not _is_text(values):
            return _read_vectors(values)
        texts = list(iterate_sentences(values))
        choice = self._embedder.choose("auto" if layers is None else layers)
        if choice.layout == "all":
            raise InputError(
                "similarity compares two vectors; choose 'meaning', 'average', 'top', 'concat' or one layer."
            )
        if not any(map(_is_marked, texts)):
            words, _ = self._read(texts, split_on_spaces)
            return self._embedder.encode(words, "auto", layers)
        tokenizer = self._tokenizer(split_on_spaces)
        targets = [read_target(text, None, tokenizer, name="index") for text in texts]
        words = [words for words, _ in targets]
        self._scripts.check(words)
        arrays = self._embedder.embed_spans(words, [[span] for _, span in targets], choice)
        return np.concatenate(arrays)

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sentences: str, *, split_on_spaces: bool = ...
    ) -> SentenceScore: ...
    @overload
    def score(self, sentences: Iterable[Sentence], *, split_on_spaces: bool = ...) -> list[SentenceScore]: ...
    def score(
        self, sentences: str | Iterable[Sentence], *, split_on_spaces: bool = False
    ) -> SentenceScore | list[SentenceScore]:
        """Return how well the language model predicts each word, over its whole vocabulary.

        A character-level model scores tokens, so a word of several tokens is listed as those tokens. A string
        returns one score, and a list of sentences a list in the same order. The model needs its softmax.
        """
        words, single = self._read(sentences, split_on_spaces)
        scores = self._embedder.score(words)
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
        """Return the substitutes that the language model predicts for one word, best first.

        Name the word by its index, or mark it with brackets: "I went to the [bank]". Substitutes are ranked by the
        product of both directions' probabilities, divided by their frequency. They include punctuation and the word
        itself only if `punctuation` and `same_word` are true, and never `<S>`, `</S>` and `<UNK>`. In a
        character-level model, the substitutes of a word have as many tokens as the word. A string without final
        punctuation is treated as if it ended with a period; `add_period=True` does the same for lists of words.
        """
        words, (start, end) = read_target(sentence, index, self._tokenizer(split_on_spaces), name="index")
        reads_characters = self.tokenization.reads_characters
        if end - start > 1 and not reads_characters:
            raise InputError(
                f"The brackets hold {end - start} words, {' '.join(words[start:end])!r:.80}; mark one word, "
                "because one word is put in its place."
            )
        add_period = isinstance(sentence, str) if add_period is None else add_period
        period = "。" if reads_characters else "."
        if add_period and not is_punctuation(words[-1]) and period in (self.vocabulary or ()):
            words = [*words, period]  # often left out by users, but the sentences of the training text end with it
        self._scripts.check([words])
        tokenized = self.tokenization.split_words(words)
        ranges = tokenized.ranges()
        return find_substitutes(
            self._runtime, self._indexer, self.vocabulary, tokenized.tokens, (ranges[start][0], ranges[end - 1][1]),
            top_k=top_k, punctuation=punctuation, same_word=same_word, table=self._embedder.table,
        )  # fmt: skip

    def reset_state(self) -> None:
        """Set the carried state to zero, for models opened with state="carry"."""
        if not self._runtime.carries_state:
            raise InputError("This model keeps no state to reset; open it with state='carry' to keep one.")
        self._runtime.reset_state()

    def checkpoint(self) -> Checkpoint:
        """Return the configuration, word lists and weights, ready to be written in any format."""
        return self._checkpoint

    def save_pretrained(
        self, folder: str | Path, *, format: Literal["elmo", "hdf5"] = "elmo", storage: Storage = "float32"
    ) -> None:
        """Write the model to a folder that from_pretrained opens; "hdf5" is the format of bilm-tf and AllenNLP.

        `storage`: "float32"; "float16", half the size; or "compact", float16 with the softmax in int8.
        """
        if format not in ("elmo", "hdf5"):
            raise CheckpointError(f"format is {format!r}; a model is saved as 'elmo' or 'hdf5'.")
        if format == "elmo":
            write_folder(self._checkpoint, folder, storage=storage)
        elif storage == "float32":
            write_hdf5(self._checkpoint, folder)
        else:
            raise CheckpointError(f"storage is {storage!r}, but HDF5 models are stored in float32; leave it out.")

    def push_to_hub(self, name: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the model to the Hugging Face hub as `name` and return its address."""
        import tempfile

        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            self.save_pretrained(folder)
            return push_folder(folder, name, private=private, token=token)

    def _embed_window(self, window: list[list[str]], choice: LayerChoice) -> list[Array]:
        self._scripts.check(window)
        return self._embedder.embed(window, choice)

    def _tokenizer(self, on_spaces: bool) -> Tokenizer:
        return self.tokenization.tokenizer(on_spaces=on_spaces)

    def _read(self, sentences: str | Iterable[Sentence], on_spaces: bool) -> tuple[list[list[str]], bool]:
        """Return the words of each sentence, and whether the input was one string; warn about unfamiliar scripts."""
        texts = [sentences] if isinstance(sentences, str) else sentences
        words = read_sentences(texts, self._tokenizer(on_spaces))
        self._scripts.check(words)
        return words, isinstance(sentences, str)


def _is_packaged(source: str | Path | None) -> bool:
    """Return whether a source is one of the models in this package."""
    if source is None:
        return True
    path = Path(source) if Path(source).exists() else installed_models().get(str(source), Path(source))
    return path.resolve().parent == MODELS_FOLDER.resolve()


def _cut_windows(sentences: Iterable[list[str]], num_sentences: int, num_words: int) -> Iterator[list[list[str]]]:
    """Yield groups of `num_sentences` sentences, or fewer if these already have `num_words` words."""
    window: list[list[str]] = []
    remaining_words = num_words
    for words in sentences:
        window.append(words)
        remaining_words -= len(words)
        if len(window) == num_sentences or remaining_words <= 0:
            yield window
            window, remaining_words = [], num_words
    if window:
        yield window


def _is_text(values: Any) -> bool:
    """Return whether an array or a list holds sentences rather than vectors."""
    if hasattr(values, "dtype"):
        return getattr(values.dtype, "kind", "f") in "OSU"
    first = np.asarray(values[:1])
    return not first.size or first.dtype.kind in "OSU"


def _read_vectors(values: Any) -> Array:
    """Return vectors as an array (N, S); a single vector is one row."""
    try:
        vectors = np.atleast_2d(np.asarray(values, dtype=np.float32))
    except (TypeError, ValueError):
        vectors = np.zeros((0, 0, 0), np.float32)
    if vectors.ndim != 2:
        raise InputError(
            "similarity takes strings, or one vector per row, as an array (N, dimensions) or a list of vectors of "
            "equal length."
        )
    return vectors


def _is_marked(text: object) -> bool:
    """Return whether a word of a sentence is in brackets; corner brackets are mostly quotation marks."""
    return isinstance(text, str) and any(mark[0][0] != "「" for mark in find_marks(text))


def _is_list_of_spans(value: object) -> bool:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        return False
    return not len(value) or isinstance(value[0], Sequence | np.ndarray)
