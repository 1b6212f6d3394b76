"""Rows -> blocks of words and vectors, in the form in which they are stored."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from elmo.corpus.rows import Entry, Row
from elmo.files.sources import BrokenRow
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.vectors.formats import Arrays, Block, Layout, Span
from elmo.vectors.settings import DType, VectorSettings

_LARGEST_INT8 = 127
_LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
_ROWS_AT_ONCE, _WORDS_AT_ONCE = 1024, 32_768  # bounds the memory of a block's vectors


def default_layers(model: Elmo) -> Literal["meaning", "average"]:
    """Return the layers of word vectors if none are chosen: those that separate meanings best."""
    return "average" if model.context is None else "meaning"


def is_on_cpu(model: Elmo) -> bool:
    """Return whether a model computes on the CPU."""
    return str(model.device).partition(":")[0] == "cpu"


class RowEmbedder:
    """Computes blocks of rows; knows at the end which rows were broken and the number of words."""

    def __init__(self, model: Elmo, settings: VectorSettings) -> None:
        self._model, self._settings = model, settings
        self._layers = cast("Layers | None", settings.layers)
        self._only_words = frozenset(settings.only_words)
        self.layout = make_layout(model, settings)
        self.broken: list[Entry] = []
        self.num_words = self.num_without_span = 0

    def blocks(self, entries: Iterable[Entry]) -> Iterator[Block]:
        """Yield the rows in order, some at a time; with a carried state one by one."""
        self._model.clear_cache()
        rows_at_once = _ROWS_AT_ONCE if self._model.state == "zero" else 1
        window: list[tuple[Entry, list[str], list[Span]]] = []
        num_words = 0
        for entry in entries:
            try:
                if isinstance(entry.row, BrokenRow):
                    raise _RowError(entry.row.reason)
                words, spans = self._read(entry.row)
            except _RowError as error:
                self.broken.append(replace(entry, row=BrokenRow(entry.row.number, str(error))))
                continue
            self.num_words += len(words)
            if self._settings.unit == "spans" and not spans:
                self.num_without_span += 1
                continue
            if len(window) == rows_at_once or (window and num_words + len(words) > _WORDS_AT_ONCE):
                yield self._make_block(window)
                window, num_words = [], 0
            window.append((entry, words, spans))
            num_words += len(words)
        if window:
            yield self._make_block(window)

    def _read(self, row: Row) -> tuple[list[str], list[Span]]:
        """Return the words and the chosen spans of a row."""
        settings = self._settings
        words = row.content
        if isinstance(words, str):
            words = [word.text for word in self._model.tokenize(words, split_on_spaces=settings.split_on_spaces)]
        spans = self._find_only(words) if self._only_words else row.spans or []
        for start, end in spans:
            if not 0 <= start < end <= len(words):
                raise _RowError(f"has the span [{start}, {end}], which is not within its {len(words)} words")
        if len(words) > settings.max_words:
            raise _RowError(
                f"has {len(words):,} words, more than {settings.max_words:,}; split it into sentences first, or "
                "allow more with --max-words"
            )
        return words, spans

    def _find_only(self, words: list[str]) -> list[Span]:
        """Return where the chosen words are, each of which may be several letters in a row."""
        if not self._model.tokenization.reads_characters:
            return [(number, number + 1) for number, word in enumerate(words) if word in self._only_words]
        spans = set()
        for word in self._only_words:
            letters = [letter.text for letter in self._model.tokenize(word)]
            for start in range(len(words)):
                for end in (start + 1, start + len(letters)):
                    if end <= len(words) and words[start:end] in ([word], letters):
                        spans.add((start, end))
        return sorted(spans)

    def _make_block(self, window: list[tuple[Entry, list[str], list[Span]]]) -> Block:
        settings = self._settings
        entries, words = [entry for entry, _, _ in window], [words for _, words, _ in window]
        spans = [spans for _, _, spans in window]
        if settings.unit == "sentences":
            vectors = self._model.encode(
                words, pooling=settings.pooling, normalize_embeddings=settings.normalize, layers=self._layers
            )
            counts = [1] * len(window)
        else:
            layers = default_layers(self._model) if self._layers is None else self._layers
            if settings.unit == "spans":
                arrays = self._model.embed_spans(words, spans, layers=layers)
            else:
                embedded = self._model.embed(words, layers=layers)
                # All layers: (T, L+1, 2D).
                arrays = [array.transpose(1, 0, 2) if array.ndim == 3 else array for array in embedded]
            counts = [len(array) for array in arrays]
            vectors = np.concatenate(arrays)
        return Block(
            indexes=[entry.index for entry in entries],
            ids=[cast(Row, entry.row).id for entry in entries],
            words=words,
            texts=[cast(Row, entry.row).text for entry in entries],
            spans=spans if settings.unit == "spans" else None,
            counts=counts,
            arrays=quantize(vectors, settings.dtype),
        )


class _RowError(Exception):
    """Why a row cannot be embedded."""


def make_layout(model: Elmo, settings: VectorSettings) -> Layout:
    """Return the form of all rows; InputError if the model does not have the layers."""
    layers = cast("Layers | None", settings.layers)
    if settings.unit == "sentences":
        return Layout(settings.unit, settings.dtype, model.sentence_shape(settings.pooling, layers))
    return Layout(settings.unit, settings.dtype, model.word_shape(default_layers(model) if layers is None else layers))


def quantize(vectors: npt.NDArray[np.float32], dtype: DType) -> Arrays:
    """Return the numbers to store and, for int8, the scale of each vector."""
    if dtype == "float32":
        return {"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    if dtype == "float16":
        return {"vectors": np.clip(vectors, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16)}
    largest = np.abs(vectors).max(axis=-1, initial=0.0)
    scales = (largest / _LARGEST_INT8).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[..., None]
    rounded = np.rint(vectors / divisors).clip(-_LARGEST_INT8, _LARGEST_INT8)
    return {"vectors": rounded.astype(np.int8), "scales": scales}
