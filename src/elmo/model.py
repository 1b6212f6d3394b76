"""Elmo, the facade: open a model, turn text into contextual vectors, save it. Networks are in nn/."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args, overload

import numpy as np
import numpy.typing as npt
import torch

from elmo.build import build_bilm
from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.embedded import DEFAULT_MODEL
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.hub import push_folder
from elmo.checkpoint.location import as_path
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.recognition import Format
from elmo.checkpoint.storage import Storage
from elmo.config import ContextConfig, ModelConfig
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.inference.context import ContextReader
from elmo.inference.cosine import Comparison, cosine
from elmo.inference.layers import LayerChoice, Layers, choose_layers
from elmo.inference.precision import Precision
from elmo.inference.runtime import Runtime
from elmo.inference.scoring import SentenceScore, score_batches
from elmo.inference.substitution import Substitute, find_substitutes
from elmo.inference.word_cache import DEFAULT_BYTES, CacheInfo
from elmo.nn.bilm import BiLM, LayerStates
from elmo.text.batch import CharBatch, pack
from elmo.text.marks import WordIndex, read_pointed
from elmo.text.scripts import ScriptWatch
from elmo.text.sentence_input import Sentence, Tokenizer, read_sentence, read_sentences
from elmo.text.tokenize import Word, split_on_spaces, tokenize

Array = npt.NDArray[np.float32]
# Products are fastest with this many sentences side by side; the tokens bound the memory of a batch's vectors.
SENTENCES_PER_BATCH, TOKENS_PER_BATCH = 128, 16384
SENTENCES_READ_AHEAD, WORDS_READ_AHEAD = 1024, 65536
Pooling: TypeAlias = Literal["auto", "weighted", "mean", "max"]


class Elmo:
    """A bidirectional language model that gives every word of a sentence its vectors in that sentence."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        precision: str = "float32",
        device: str | torch.device = "cpu",
        state: Literal["zero", "carry"] = "zero",
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
        literal_boundaries: bool = False,
    ) -> None:
        """Make a model of an opened checkpoint; most callers want Elmo.from_pretrained.

        `literal_boundaries` reads the words <S> and </S> as boundaries, as the original programs did.
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
        self._runtime = Runtime(
            checkpoint.build(),
            precision=precision,
            device=device,
            carry=state == "carry",
            num_threads=num_threads,
            cache_bytes=cache_bytes,
        )
        self.indexer = checkpoint.indexer(literal_boundaries=literal_boundaries)
        self.vocabulary = checkpoint.make_vocabulary()
        self.scripts = ScriptWatch(self.vocabulary.words if self.vocabulary else None)
        context = checkpoint.context
        self._context = None if context is None else ContextReader(context, self.word_vectors)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        format: Format | None = None,
        precision: str = "float32",
        device: str | torch.device = "cpu",
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
        becomes float32, and the log says so. `num_threads`: of the products, by default as many as torch uses.
        `cache_bytes`: for vectors of words that were seen before, which depend on their spelling alone.
        """
        given = {"format": format, "token_embeddings": token_embeddings, "revision": revision}
        if source is None:
            for name in (name for name, value in given.items() if value is not None):
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
            weights = build_bilm(config).state_dict()
        words = None if vocabulary is None else tuple(vocabulary)
        return cls(
            Checkpoint(config, weights, vocabulary=words, origin={"format": "random", "source": f"seed {seed}"})
        )

    @property
    def config(self) -> ModelConfig:
        """What the model is made of."""
        return self._checkpoint.config

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

    @property
    def num_layers(self) -> int:
        """L + 1: the layers of the language model and the word vectors below them."""
        return self._runtime.bilm.num_layers

    @property
    def state(self) -> Literal["zero", "carry"]:
        """Where each sentence starts: anew, or where the one before it ended."""
        return "zero" if self._runtime.carried is None else "carry"

    @property
    def precision(self) -> Precision:
        """What the products are made in."""
        return self._runtime.precision

    @property
    def num_threads(self) -> int:
        """How many threads make them."""
        return self._runtime.workers.num_threads

    def cache_info(self) -> CacheInfo:
        """Tell how often the vector of a word's spelling was remembered, and how full that memory is."""
        return self._runtime.cache.info()

    def clear_cache(self) -> None:
        """Forget the words that were seen, so that each is encoded anew."""
        self._runtime.cache.clear()

    def __repr__(self) -> str:
        origin = self._checkpoint.origin
        name = origin.get("source", "new")
        return f"Elmo({name!r}, {self.num_layers} layers of {self.dim}, {self.precision}, {self.device})"

    def tokenize(self, text: str, *, split_on_spaces: bool = False) -> list[Word]:
        """Give the words of a text with their character offsets."""
        if not isinstance(text, str):
            raise InputError(f"The text is of type {type(text).__name__}; a string was expected.")
        return _tokenizer(split_on_spaces)(text)

    @overload
    def embed(  # type: ignore[overload-overlap]  # a str is an iterable of strings too; the first match wins
        self, sentences: str, *, layers: Layers = ..., split_on_spaces: bool = ...
    ) -> Array: ...
    @overload
    def embed(
        self, sentences: Iterable[Sentence], *, layers: Layers = ..., split_on_spaces: bool = ...
    ) -> list[Array]: ...
    def embed(
        self, sentences: str | Iterable[Sentence], *, layers: Layers = "average", split_on_spaces: bool = False
    ) -> Array | list[Array]:
        """Give one array for each sentence, one row a word, in the order given.

        A string is one sentence and gives one array; a list of strings, or of lists of words, gives a list.
        `layers`: "average", "top", a number or L+1 weights give (T, 2D); "concat" (T, (L+1)·2D); "all"
        (L+1, T, 2D). "meaning", for models with a context layer of d dimensions, gives (T, 2D + d): the top layer
        beside the context vector. The arrays are float32.
        """
        choice = self._choose(layers)
        tokenizer = _tokenizer(split_on_spaces)
        if isinstance(sentences, str):
            return self._embed_words([read_sentence(sentences, tokenizer)], choice)[0]
        return self._embed_words(read_sentences(sentences, tokenizer), choice)

    def embed_iter(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: Layers = "average",
        split_on_spaces: bool = False,
        read_ahead: int = SENTENCES_READ_AHEAD,
    ) -> Iterator[Array]:
        """Give the arrays of embed one by one, in the order given, for an iterable of any length.

        Memory is bounded: at most `read_ahead` sentences are read and embedded at a time, and fewer where they
        are long (with state="carry" all of them, as the rows of one batch).
        """
        choice = self._choose(layers)
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise InputError("embed_iter takes an iterable of sentences; for one sentence use embed.")
        if not isinstance(read_ahead, int) or read_ahead < 1:
            raise InputError(f"read_ahead is {read_ahead!r}; it must be a whole number of sentences, 1 or more.")
        return self._embed_windows(sentences, choice, _tokenizer(split_on_spaces), read_ahead)

    def encode(
        self,
        sentences: str | Iterable[Sentence],
        *,
        pooling: Pooling = "auto",
        normalize: bool = False,
        layers: Layers | None = None,
        split_on_spaces: bool = False,
    ) -> Array:
        """Return one vector per sentence, (N, dimensions); (dimensions,) for a single string.

        `pooling`: "mean" or "max" of the words' vectors in `layers` ("average" if not given). "weighted", for
        models with a context layer: the sum of the words' static vectors stands beside that of their centred
        vectors in layer 0, frequent words count little, and what all sentences share is removed; it takes no
        `layers`, and its vectors have the length 1. "auto": "weighted" if the model has a context layer and
        `layers` is not given, else "mean".

        An empty sentence gives zeros. `normalize` scales each vector to length 1.
        """
        chosen = self.choose_pooling(pooling, layers)
        choice = self._choose("average" if layers is None else layers)
        single = isinstance(sentences, str)
        batch = [sentences] if isinstance(sentences, str) else sentences
        words = read_sentences(batch, _tokenizer(split_on_spaces))
        if chosen == "weighted":
            assert self._context is not None
            self.scripts.check(words)
            vectors = self._context.encode(words)
            return cast(Array, vectors[0] if single else vectors)
        vectors = np.stack(self._embed_words(words, choice, lambda array: _pool(array, chosen)))
        if normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        return cast(Array, vectors[0] if single else vectors)

    def word_vectors(self, words: Sequence[str]) -> Array:
        """Return the vectors (n, D) that words have without a sentence: layer 0, which both directions share."""
        found = np.zeros((len(words), self.config.encoder.output_dim), dtype=np.float32)
        for start in range(0, len(words), WORDS_READ_AHEAD):
            batch = self.indexer.batch([words[start : start + WORDS_READ_AHEAD]])
            places = batch.word_index[0, 1:-1]
            found[start : start + len(places)] = self._runtime.encode_words(batch)[places].cpu().numpy()
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
        tokenizer = _tokenizer(split_on_spaces)
        if isinstance(sentences, str):
            return self._context.read([read_sentence(sentences, tokenizer)])[0]
        words = read_sentences(sentences, tokenizer)
        arrays: list[Array] = []
        for start in range(0, len(words), SENTENCES_PER_BATCH):
            arrays += self._context.read(words[start : start + SENTENCES_PER_BATCH])
        return arrays

    def add_context(self, sentences: Sequence[Sequence[str]], top: Sequence[Array]) -> list[Array]:
        """Return the vectors of layers="meaning", (T, 2D + d), from the top layer (T, 2D) of sentences."""
        contexts = self.context_vectors(sentences) if sentences else []
        assert self._context is not None
        return [self._context.join(*pair) for pair in zip(top, contexts, strict=True)]

    def embed_spans(
        self,
        sentence: Sentence,
        spans: Sequence[tuple[int, int]],
        *,
        layers: Layers = "average",
        split_on_spaces: bool = False,
    ) -> Array:
        """Give one vector for each phrase of a sentence: the mean over a half-open range of words.

        (N, 2D), or (N, L+1, 2D) for layers="all".
        """
        words = read_sentence(sentence, _tokenizer(split_on_spaces))
        if not isinstance(spans, Sequence):
            raise InputError(f"spans is {spans!r:.60}; give a list of ranges of words, such as [(2, 4)].")
        for span in spans:
            if not _is_span(span, len(words)):
                raise InputError(
                    f"The span {span!r:.60} does not lie in a sentence of {len(words)} words; give a start "
                    "and an end with 0 <= start < end <= the number of words."
                )
        choice = self._choose(layers)
        array = self._embed_words([words], choice)[0]
        vectors = [array[..., start:end, :].mean(axis=-2) for start, end in spans]
        empty = np.zeros((0, *array.shape[:-2], array.shape[-1]), dtype=np.float32)
        return np.stack(vectors) if vectors else empty

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
        return self.compare(
            sentence_a,
            sentence_b,
            index_a=index_a,
            index_b=index_b,
            layers=layers,
            split_on_spaces=split_on_spaces,
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
        tokenizer = _tokenizer(split_on_spaces)
        (words_a, span_a), (words_b, span_b) = (
            read_pointed(sentence_a, index_a, tokenizer, name="index_a"),
            read_pointed(sentence_b, index_b, tokenizer, name="index_b"),
        )
        sentences, spans = [words_a, words_b], [slice(*span_a), slice(*span_b)]
        arrays = self._embed_words(sentences, self._choose("all"))
        first, second = (array[:, span].mean(axis=1) for array, span in zip(arrays, spans, strict=True))
        chosen = [choice.lay_out((choice.matrix @ each)[None])[0] for each in (first, second)]
        if choice.with_context:
            meanings = self.add_context(sentences, [array[-1] for array in arrays])
            chosen = [array[span].mean(axis=0) for array, span in zip(meanings, spans, strict=True)]
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
        """Give how well the language model foresaw each word, over its whole vocabulary.

        A string gives one score, a list of sentences a list, in the order given. The model needs its softmax.
        """
        tokenizer = _tokenizer(split_on_spaces)
        single = isinstance(sentences, str)
        words = read_sentences([sentences] if isinstance(sentences, str) else sentences, tokenizer)
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
    ) -> list[Substitute]:
        """Return the words the language model would put in place of one, best first.

        Name the word by its index, or mark it with brackets: "I went to the [bank]". Words are ranked by the
        product of both directions' probabilities, divided by the word's own frequency. `punctuation` and the word
        itself (`same_word`) are left out unless asked for; <S>, </S> and <UNK> are never offered.
        """
        words, (start, end) = read_pointed(sentence, index, _tokenizer(split_on_spaces), name="index")
        if end - start > 1:
            raise InputError(
                f"The brackets hold {end - start} words, {' '.join(words[start:end])!r:.80}; mark one word, for "
                "one word is put in its place."
            )
        self.scripts.check([words])
        return find_substitutes(
            self._runtime, self.indexer, self.vocabulary, words, start,
            top_k=top_k, punctuation=punctuation, same_word=same_word,
        )  # fmt: skip

    def reset_state(self) -> None:
        """Forget what was read so far, with state="carry"."""
        if self._runtime.carried is None:
            raise InputError("This model keeps no state to reset; open it with state='carry' to keep one.")
        self._runtime.carried.reset()

    def layer_states(self, batch: CharBatch) -> LayerStates:
        """Give all layers of one packed batch, boundaries included, rows in the batch's order."""
        return self._runtime.run(batch)

    def checkpoint(self) -> Checkpoint:
        """Give the model as it is now, ready to be written in any format."""
        return replace(self._checkpoint, weights=self.bilm.state_dict())

    def save_pretrained(
        self, folder: str | Path, *, format: Literal["elmo", "hdf5"] = "elmo", storage: Storage = "float32"
    ) -> None:
        """Write the model to a folder that from_pretrained opens; "hdf5" is what bilm-tf and AllenNLP read.

        `storage`: "float32"; "float16", half as large; or "compact", with the softmax in 8 bits besides.
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
        """Upload the model to the Hugging Face hub as `name` and give its address."""
        import tempfile

        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            self.save_pretrained(folder)
            return push_folder(folder, name, private=private, token=token)

    def _embed_windows(
        self, sentences: Iterable[Sentence], choice: LayerChoice, tokenizer: Tokenizer, read_ahead: int
    ) -> Iterator[Array]:
        max_words = WORDS_READ_AHEAD if self._runtime.carried is None else sys.maxsize
        window: list[list[str]] = []
        num_words = 0
        for number, sentence in enumerate(sentences):
            window.append(read_sentence(sentence, tokenizer, position=number))
            num_words += len(window[-1])
            if len(window) == read_ahead or num_words >= max_words:
                yield from self._embed_words(window, choice)
                window, num_words = [], 0
        if window:
            yield from self._embed_words(window, choice)

    def _embed_words(
        self,
        sentences: list[list[str]],
        choice: LayerChoice,
        finish: Callable[[Array], Array] = lambda array: array,
    ) -> list[Array]:
        """Embed sentences of words; `finish` is what to keep of each array, which is its to change."""
        arrays: list[Array | None] = [None] * len(sentences)
        for batch in self._pack(sentences):
            rows = self._runtime.embed(batch, choice).cpu().numpy()
            start = 0
            context = self._read_context([sentences[number] for number in batch.order], choice)
            for place, number in enumerate(batch.order):
                # The boundaries are cut off. A copy lets go of the batch; a sentence alone is all of it.
                array = choice.lay_out(rows[start + 1 : start + 1 + len(sentences[number])])
                if self._context is not None and context is not None:
                    arrays[number] = finish(self._context.join(array, context[place]))
                else:
                    arrays[number] = finish(array if len(batch.order) == 1 else array.copy())
                start += len(sentences[number]) + 2
        return cast(list[Array], arrays)

    def _read_context(self, sentences: list[list[str]], choice: LayerChoice) -> list[Array] | None:
        return self._context.read(sentences) if self._context is not None and choice.with_context else None

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

    def _pack(self, sentences: list[list[str]]) -> Iterable[CharBatch]:
        self.scripts.check(sentences)
        # Carried state belongs to rows, so those sentences are one batch in the order given.
        if self._runtime.carried is not None:
            return [self.indexer.batch(sentences)]
        return pack(sentences, self.indexer, token_budget=TOKENS_PER_BATCH, sentence_budget=SENTENCES_PER_BATCH)


def _tokenizer(on_spaces: bool) -> Tokenizer:
    return split_on_spaces if on_spaces else tokenize


def _pool(array: Array, pooling: str) -> Array:
    if array.shape[-2] == 0:
        return np.zeros((*array.shape[:-2], array.shape[-1]), dtype=np.float32)
    return cast(Array, array.mean(axis=-2) if pooling == "mean" else array.max(axis=-2))


def _is_span(span: object, num_words: int) -> bool:
    if not isinstance(span, Sequence | np.ndarray) or len(span) != 2:
        return False
    start, end = span
    whole = isinstance(start, int | np.integer) and isinstance(end, int | np.integer)
    return whole and bool(0 <= start < end <= num_words)
