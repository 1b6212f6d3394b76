"""CorpusIndex: an index of occurrences, opened. Making one is in index_build.py."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from elmo.analysis.cells import Mask
from elmo.analysis.corpus_part import Part
from elmo.analysis.index_manifest import Manifest, read_manifest
from elmo.analysis.index_segment import DAMAGE, Segment, damaged
from elmo.analysis.layer_choice import Array, LayerKey
from elmo.analysis.neighbor_results import Neighbor, StaticNeighbor, WordFilter
from elmo.analysis.occurrences import Occurrence, is_same_word
from elmo.errors import CheckpointError, InputError


class CorpusIndex:
    """Every word of some texts with its vectors, on disk. Opening it reads next to nothing."""

    def __init__(self, folder: str | Path) -> None:
        """Open the index in a folder; CheckpointError if there is none."""
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        if not self.manifest.segments:
            raise CheckpointError(
                f"{self.folder} is an index without any words yet; run the command that builds it again."
            )

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            raise damaged(self.folder, error) from error

    @cached_property
    def _segments(self) -> list[Segment]:
        names = [source.name for source in self.manifest.sources]
        return [Segment(self.folder / segment, names) for segment in self.manifest.segments]

    @property
    def num_occurrences(self) -> int:
        """How many words its texts have."""
        return self.manifest.num_occurrences

    def is_of(self, model_hash: str, context_hash: str | None) -> bool:
        """Tell whether it was made with a model that has these hashes; the context layer's counts for meaning."""
        return self.manifest.model_hash == model_hash and self.manifest.context_hash in (None, context_hash)

    def search(
        self,
        vector: Array,
        layer: LayerKey,
        *,
        word: str,
        words: WordFilter = "any",
        part: Part | None = None,
        top_k: int = 10,
    ) -> list[Neighbor]:
        """Give the occurrences nearest to a vector of length 1, best first, in the part and words asked for."""
        found: list[tuple[float, int, int]] = []
        with self._telling_damage():
            for number, segment in enumerate(self._segments):
                mask = _make_mask(segment, word, words, part)
                nearest = segment.cells(layer).search(vector, top_k, mask, num_files=len(self._segments))
                for occurrence, cosine in nearest:
                    found.append((cosine, number, occurrence))
            found.sort(key=lambda each: -each[0])
            return [Neighbor(self._segments[number][place], cosine) for cosine, number, place in found[:top_k]]

    def search_words(self, vector: Array, *, word: str, top_k: int = 10) -> list[StaticNeighbor]:
        """Give the words nearest to a vector of layer 0, best first, without the word itself."""
        found: dict[str, float] = {}
        with self._telling_damage():
            for segment in self._segments:
                num_forms = len(segment.forms_of(word))
                cells = segment.cells(0)
                for number, cosine in cells.search(vector, top_k + num_forms, num_files=len(self._segments)):
                    found[segment.words[number]] = cosine
        best = sorted(found.items(), key=lambda each: -each[1])
        return [StaticNeighbor(each, cosine) for each, cosine in best if not is_same_word(each, word)][:top_k]

    def count(self, part: Part | None = None) -> int:
        """Give how many occurrences a part has."""
        if part is None or part.is_whole:
            return self.num_occurrences
        with self._telling_damage():
            return sum(int(segment.mask_of_part(part).sum()) for segment in self._segments)

    def find_occurrences(
        self, word: str, *, max_occurrences: int, part: Part | None = None, seed: int = 0
    ) -> tuple[list[Occurrence], int]:
        """Give the occurrences of a word, at most so many drawn by the seed, in order; and how many there are."""
        places: list[tuple[int, int]] = []
        with self._telling_damage():
            for number, segment in enumerate(self._segments):
                numbers = segment.occurrences_of(word)
                if part is not None and not part.is_whole:
                    numbers = numbers[segment.mask_of_part(part)[numbers]]
                places += [(number, place) for place in sorted(numbers.tolist())]
            drawn = places
            if len(places) > max_occurrences:
                drawn = sorted(random.Random(seed).sample(places, max_occurrences))
            return [self._segments[number][place] for number, place in drawn], len(places)

    def check_layers(self, layers: tuple[LayerKey, ...]) -> None:
        """Refuse a layer that was not indexed."""
        for layer in layers:
            if layer not in self.manifest.layers:
                known = ", ".join(map(str, self.manifest.layers))
                raise InputError(
                    f"{self.folder} does not hold the layer {layer}, only {known} (and the words' own, 0); build "
                    "another index for it."
                )


def _make_mask(segment: Segment, word: str, words: WordFilter, part: Part | None) -> Mask | None:
    mask = None if part is None or part.is_whole else segment.mask_of_part(part)
    if words == "any":
        return mask
    same = np.zeros(segment.num_occurrences, dtype=np.bool_)
    same[segment.occurrences_of(word)] = True
    chosen = same if words == "same" else ~same
    return chosen if mask is None else mask & chosen
