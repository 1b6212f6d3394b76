"""The rows of one part and a model -> blocks of rows with their vectors, as they are stored.

The batches depend on the part alone, and the word cache is cleared first, so a part has the same numbers whichever
process computes it, and whatever it computed before.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from elmo.files.sources import BrokenRow
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.vectors.formats import Array, Block, Layout, Span
from elmo.vectors.parts import Part
from elmo.vectors.rows import Entry, Row
from elmo.vectors.settings import DType, VectorSettings

_LARGEST_INT8 = 127
_LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
_ROWS_AT_ONCE, _WORDS_AT_ONCE = 1024, 32_768  # bounds the memory of a block's vectors


_Window: TypeAlias = list[tuple[Entry, list[str], list[Span]]]


class PartEmbedder:
    """Computes the blocks of one part; knows at the end which rows were broken and the number of words."""

    def __init__(self, model: Elmo, settings: VectorSettings) -> None:
        self._model, self._settings = model, settings
        self._layers = cast("Layers | None", settings.layers)
        self._word_layers: Layers = "average" if self._layers is None else self._layers
        self._only_words = frozenset(settings.only_words)
        self.layout = make_layout(model, settings)
        self.broken: list[Entry] = []
        self.num_words = self.num_without_span = 0

    def blocks(self, part: Part) -> Iterator[Block]:
        """Yield the blocks of a part in order."""
        self._model.clear_cache()
        window: _Window = []
        num_words = 0
        for entry in part.entries:
            if isinstance(entry.row, BrokenRow):
                self.broken.append(entry)
                continue
            words = self._read_words(entry.row)
            spans = self._find_spans(entry.row, words)
            if isinstance(spans, str) or len(words) > self._settings.max_words:
                reason = spans if isinstance(spans, str) else self._too_long(len(words))
                self.broken.append(replace(entry, row=BrokenRow(entry.row.number, reason)))
                continue
            self.num_words += len(words)
            if spans is not None and not spans:
                self.num_without_span += 1
                continue
            if window and num_words + len(words) > _WORDS_AT_ONCE:
                yield self._make_block(window)
                window, num_words = [], 0
            window.append((entry, words, spans or []))
            num_words += len(words)
            if len(window) == _ROWS_AT_ONCE:
                yield self._make_block(window)
                window, num_words = [], 0
        if window:
            yield self._make_block(window)

    def _read_words(self, row: Row) -> list[str]:
        if isinstance(row.content, list):
            return row.content
        read = self._model.tokenize(row.content, split_on_spaces=self._settings.split_on_spaces)
        return [word.text for word in read]

    def _find_spans(self, row: Row, words: list[str]) -> list[Span] | str | None:
        """Return the spans of a row, None if every word or sentence is wanted, or why the row is broken."""
        if self._settings.unit != "spans":
            return None
        if self._only_words:
            if not self._model.tokenization.reads_characters:
                return [(place, place + 1) for place, word in enumerate(words) if word in self._only_words]
            return self._find_runs(words)
        for start, end in row.spans or ():
            if not 0 <= start < end <= len(words):
                return f"has the span [{start}, {end}], which is not within its {len(words)} words"
        return row.spans or []

    def _find_runs(self, words: list[str]) -> list[Span]:
        """Return where the wanted words are, each of which may be several letters in a row."""
        found = set()
        for wanted in self._only_words:
            units = [each.text for each in self._model.tokenize(wanted)]
            for start in range(len(words)):
                for end in range(start + 1, min(len(words), start + max(1, len(units))) + 1):
                    if words[start:end] in ([wanted], units):
                        found.add((start, end))
        return sorted(found)

    def _too_long(self, num_words: int) -> str:
        return (
            f"has {num_words:,} words, more than {self._settings.max_words:,}; split it into sentences first, or "
            "allow more with --max-words"
        )

    def _make_block(self, window: _Window) -> Block:
        entries = [entry for entry, _, _ in window]
        words = [words for _, words, _ in window]
        spans = [spans for _, _, spans in window]
        arrays: list[Array] = []
        if self._settings.unit == "sentences":
            vectors = self._model.encode(
                words, pooling=self._settings.pooling, normalize=self._settings.normalize, layers=self._layers
            )
            counts = [1] * len(window)
        else:
            if self._settings.unit == "spans":
                arrays = self._model.embed_phrases(words, spans, layers=self._word_layers)
            else:
                found = self._model.embed(words, layers=self._word_layers)
                # All layers: (T, L+1, 2D).
                arrays = [array.transpose(1, 0, 2) if array.ndim == 3 else array for array in found]
            counts = [len(array) for array in arrays]
            vectors = np.concatenate(arrays)
        kept, scales = quantize(vectors, self._settings.dtype)
        return Block(
            indexes=[entry.index for entry in entries],
            ids=[cast(Row, entry.row).id for entry in entries],
            words=words,
            spans=spans if self._settings.unit == "spans" else None,
            counts=counts,
            vectors=kept,
            scales=scales,
        )


def make_layout(model: Elmo, settings: VectorSettings) -> Layout:
    """Return the form of all rows; InputError if the model does not have the layers."""
    layers = cast("Layers | None", settings.layers)
    if settings.unit == "sentences":
        return Layout(settings.unit, settings.dtype, model.sentence_shape(settings.pooling, layers))
    return Layout(settings.unit, settings.dtype, model.word_shape("average" if layers is None else layers))


def quantize(vectors: npt.NDArray[np.float32], dtype: DType) -> tuple[Array, Array | None]:
    """Return the numbers to store and, for int8, the scale of each vector."""
    if dtype == "float32":
        return np.ascontiguousarray(vectors, dtype=np.float32), None
    if dtype == "float16":
        return np.clip(vectors, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16), None
    largest = np.abs(vectors).max(axis=-1, initial=0.0)
    scales = (largest / _LARGEST_INT8).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[..., None]
    return np.rint(vectors / divisors).clip(-_LARGEST_INT8, _LARGEST_INT8).astype(np.int8), scales
