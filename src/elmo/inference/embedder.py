"""Compute the requested vectors of sentences: batching, layers, context vectors, phrases, pooling.

The class Elmo checks arguments and tokenizes text; everything after that happens here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar, get_args

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.config import Pooling
from elmo.errors import InputError
from elmo.inference.context import Span, StaticTable
from elmo.inference.layers import LayerChoice, Layers, choose_layers
from elmo.inference.meaning import Meaning
from elmo.inference.runtime import Runtime, split_rows
from elmo.inference.scoring import SentenceScore, require_softmax, score_sentences
from elmo.inference.sentence import SentenceEncoder
from elmo.progress import progress_bar
from elmo.text.batch import CharBatch, Indexer, pack
from elmo.text.sentence_input import check_batch_size
from elmo.text.vocabulary import Vocabulary

Array = npt.NDArray[np.float32]
Sentences = Sequence[Sequence[str]]
ResultT = TypeVar("ResultT")
# More sentences make multiplication faster; the number of tokens bounds the memory for a batch's vectors.
SENTENCES_PER_BATCH, TOKENS_PER_BATCH = 128, 16384
WORDS_AT_ONCE = 65536


class Embedder:
    """Computes vectors of words with one model; thread-safe."""

    def __init__(
        self, checkpoint: Checkpoint, runtime: Runtime, indexer: Indexer, vocabulary: Vocabulary | None
    ) -> None:
        self._runtime, self._config, self._indexer = runtime, checkpoint.config, indexer
        self._vocabulary, self._sentence = vocabulary, checkpoint.sentence
        self.table: StaticTable | None = None
        if checkpoint.context is not None:
            self.table = StaticTable(checkpoint.context, self.word_vectors, indexer.tokenization)

    @cached_property
    def _meaning(self) -> Meaning:
        return Meaning(self._require_table(), self._vocabulary, self._runtime)

    @cached_property
    def _head(self) -> SentenceEncoder:
        assert self._sentence is not None  # see choose_pooling
        return SentenceEncoder(self._sentence.arrays)

    def _require_table(self) -> StaticTable:
        """Return the static vectors of the context layer; raise InputError if the model has none."""
        if self.table is None:
            raise InputError("This model has no context layer; add one with elmo fuse.")
        return self.table

    def choose(self, layers: Layers) -> LayerChoice:
        """Convert the `layers` argument to a LayerChoice."""
        return choose_layers(layers, self._runtime.num_layers, has_context=self.table is not None)

    def choose_pooling(self, pooling: Pooling, layers: Layers | None) -> Pooling:
        """Return the pooling to use, which is never "auto"; raise InputError if the model does not support it."""
        if pooling not in get_args(Pooling):
            raise InputError(f"pooling is {pooling!r}; choose {', '.join(get_args(Pooling))}.")
        if pooling == "head" and self._sentence is None:
            raise InputError(
                "pooling is 'head', but this model has no sentence head; train one with elmo train --teacher, or "
                "choose 'mean' or 'max'."
            )
        if pooling == "weighted" and self.table is None:
            raise InputError("pooling is 'weighted', but this model has no context layer; add one with elmo fuse.")
        if pooling in ("head", "weighted") and layers is not None:
            raise InputError(
                f"pooling is {pooling!r}, which takes no layers; leave layers out, or choose 'mean' or 'max'."
            )
        if pooling != "auto":
            return pooling
        if layers is not None:
            return "mean"
        return "head" if self._sentence is not None else "mean" if self.table is None else "weighted"

    def word_shape(self, layers: Layers) -> tuple[int, ...]:
        """Return the shape of one word's vectors."""
        choice, dim = self.choose(layers), self._config.vector_dim
        if choice.with_context:
            return (dim + self._require_table().config.dim,)
        if choice.layout == "all":
            return (len(choice.matrix), dim)
        return (len(choice.matrix) * dim,)

    def sentence_shape(self, pooling: Pooling, layers: Layers | None) -> tuple[int, ...]:
        """Return the shape of one sentence's vector."""
        pooling = self.choose_pooling(pooling, layers)
        if pooling == "head" and self._sentence is not None:
            return (self._sentence.config.dim,)
        if pooling == "weighted":
            return (self._require_table().sentence_dim,)
        return self.word_shape("average" if layers is None else layers)

    def _pack(self, sentences: Sentences, batch_size: int | None) -> Iterable[CharBatch]:
        """Return batches of sentences of similar length."""
        # A carried state belongs to a row, so all sentences are one batch, in their original order.
        if self._runtime.carries_state:
            return [self._indexer.batch(sentences)] if sentences else []
        budget = batch_size or SENTENCES_PER_BATCH
        return pack(sentences, self._indexer, token_budget=TOKENS_PER_BATCH, sentence_budget=budget)

    def _run(
        self,
        sentences: Sentences,
        compute: Callable[[CharBatch], Sequence[ResultT]],
        batch_size: int | None = None,
        show_progress_bar: bool = False,
    ) -> list[ResultT]:
        """Return the result of `compute` for each sentence, in the order of the sentences."""
        check_batch_size(1 if batch_size is None else batch_size)
        results: dict[int, ResultT] = {}
        with progress_bar(unit="sentences", num_bytes=sum(map(len, sentences)), shown=show_progress_bar) as advance:
            for batch in self._pack(sentences, batch_size):
                results.update(zip(batch.order, compute(batch), strict=True))
                advance(sum(len(sentences[number]) for number in batch.order), len(batch.order))
        return [results[number] for number in range(len(sentences))]

    def embed(
        self,
        sentences: Sentences,
        choice: LayerChoice,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
    ) -> list[Array]:
        """Return one array per sentence."""
        return self._run(sentences, partial(self._embed_batch, choice=choice), batch_size, show_progress_bar)

    def _embed_batch(self, batch: CharBatch, choice: LayerChoice) -> list[Array]:
        if choice.with_context:
            arrays = self._find_meanings(batch, choice)
        else:
            parts = split_rows(self._runtime.embed(batch, choice), batch.word_lengths)
            arrays = [choice.lay_out(rows[1:-1]) for rows in parts]  # without boundaries
        # Copies release the memory of the batch; a single sentence uses all of it.
        return arrays if len(arrays) == 1 else [array.copy() for array in arrays]

    def _find_meanings(
        self, batch: CharBatch, choice: LayerChoice, spans: Sequence[Sequence[Span]] | None = None
    ) -> list[Array]:
        """Return the "meaning" vectors of the words, or of phrases, in each sentence of a batch."""
        top = self._runtime.embed(replace(batch, groups=None), choice)
        return self._meaning.vectors(batch, top[:, 0], spans)

    def embed_spans(self, sentences: Sentences, spans: Sequence[Sequence[Span]], choice: LayerChoice) -> list[Array]:
        """Return the vectors of phrases, one array per sentence: means over half-open ranges of words.

        A "meaning" vector is computed for the phrase as a whole.
        """
        if not choice.with_context:
            return list(map(_average_spans, self.embed(sentences, choice), spans))

        def find_meanings(batch: CharBatch) -> list[Array]:
            return self._find_meanings(batch, choice, [spans[number] for number in batch.order])

        return self._run(sentences, find_meanings)

    def contexts(self, sentences: Sentences) -> list[Array]:
        """Return the vectors of the context layer, (T, d) per sentence."""
        return self._run(sentences, self._meaning.contexts)

    def score(self, sentences: Sentences) -> list[SentenceScore]:
        """Return the log probabilities of the tokens of each sentence."""
        softmaxes, vocabulary = require_softmax(self._runtime.softmaxes, self._vocabulary)
        tokens = self._split_words(sentences)

        def score_batch(batch: CharBatch) -> list[SentenceScore]:
            rows = [tokens[number] for number in batch.order]
            return score_sentences(softmaxes, vocabulary, rows, self._runtime.predict(batch))

        return self._run(tokens, score_batch)

    def encode(
        self,
        sentences: Sentences,
        pooling: Pooling,
        layers: Layers | None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
    ) -> Array:
        """Return one vector per sentence, (N, S)."""
        pooling = self.choose_pooling(pooling, layers)
        check_batch_size(1 if batch_size is None else batch_size)
        if pooling == "weighted":
            return self._require_table().encode(sentences)
        if pooling == "head":
            # It was trained on tokens rather than words of several tokens.
            sentences, choice, encode = self._split_words(sentences), self.choose("all"), self._encode_by_head
        else:
            reduce = np.mean if pooling == "mean" else np.max
            choice, encode = self.choose("average" if layers is None else layers), partial(_pool, reduce=reduce)

        def encode_batch(batch: CharBatch) -> list[Array]:
            words = [sentences[number] for number in batch.order]
            return list(map(encode, words, self._embed_batch(batch, choice)))

        vectors = self._run(sentences, encode_batch, batch_size, show_progress_bar)
        return np.array(vectors, np.float32).reshape(len(sentences), *self.sentence_shape(pooling, layers))

    def _encode_by_head(self, words: Sequence[str], layers: Array) -> Array:
        """Return the vector of the sentence head for a sentence."""
        static, weights = np.zeros((len(words), 0), np.float32), np.ones(len(words), np.float32)
        if self._head.static_dim:
            static, weights = self._require_table().look_up(words, estimates=False)
        return self._head.encode(layers, static, weights)

    def _split_words(self, sentences: Sentences) -> list[list[str]]:
        return [self._indexer.tokenization.split_words(words).tokens for words in sentences]

    def word_vectors(self, words: Sequence[str]) -> Array:
        """Return the context-free vectors (n, D) of words: layer 0, which both directions share."""
        vectors = np.zeros((len(words), self._config.encoder.output_dim), dtype=np.float32)
        for start in range(0, len(words), WORDS_AT_ONCE):
            batch = self._indexer.batch([words[start : start + WORDS_AT_ONCE]])
            rows = self._runtime.encode_words(batch)[batch.word_index[0]]
            rows = rows if batch.groups is None else batch.groups.average(rows)
            vectors[start : start + len(rows) - 2] = rows[1:-1]
        return vectors


def _pool(_: Sequence[str], array: Array, reduce: Callable[..., Array]) -> Array:
    """Pool (…, T, dimensions) -> (…, dimensions); zeros for a sentence without words."""
    if array.shape[-2] == 0:
        return np.zeros((*array.shape[:-2], array.shape[-1]), dtype=np.float32)
    return reduce(array, axis=-2)


def _average_spans(array: Array, spans: Sequence[Span]) -> Array:
    """Average (T, dimensions) or (L+1, T, 2D) over each span: (N, dimensions) or (N, L+1, 2D)."""
    if not spans:
        return np.zeros((0, *array.shape[:-2], array.shape[-1]), dtype=np.float32)
    return np.stack([array[..., start:end, :].mean(axis=-2) for start, end in spans])
