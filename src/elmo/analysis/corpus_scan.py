"""Sentences, embedded one after another -> the occurrences nearest to a query, exactly. Memory is bounded."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from elmo.analysis.layer_choice import Array, LayerKey, embed_keys, normalize
from elmo.analysis.neighbor_results import LayerNeighbors, Neighbor, Neighbors, StaticNeighbor, WordFilter
from elmo.analysis.occurrences import CorpusSentence, Occurrence, is_same_word
from elmo.model import Elmo

SENTENCES_AT_ONCE = 256


class CorpusScan:
    """The best occurrences so far, each sentence once."""

    def __init__(
        self, query: Occurrence, vectors: Mapping[LayerKey, Array], *, words: WordFilter, top_k: int
    ) -> None:
        self._query, self._vectors, self._words, self._top_k = query, vectors, words, top_k
        # Heaps with the worst on top; the number tells equal cosines apart, earlier ones are better.
        self._best: dict[LayerKey, list[tuple[float, int, Occurrence]]] = {key: [] for key in vectors if key != 0}
        self._static: dict[str, float] = {}
        self._seen = {(tuple(query.sentence.words), query.start)}
        self._num_occurrences = 0
        self._numbers = itertools.count()

    def read(
        self, model: Elmo, sentences: Iterable[CorpusSentence], advance: Callable[[int], None] = lambda num: None
    ) -> None:
        """Read sentences; only those with a word that the filter lets through are embedded."""
        remaining = iter(sentences)
        while window := list(itertools.islice(remaining, SENTENCES_AT_ONCE)):
            self._compare_words(model, window)
            chosen = [sentence for sentence in window if self._places(sentence.words)]
            embedded = embed_keys(model, [sentence.words for sentence in chosen], list(self._best))
            for sentence, vectors in zip(chosen, embedded, strict=True):
                self._compare(sentence, vectors)
            self._num_occurrences += sum(len(sentence.offsets) for sentence in window)
            advance(len(window))

    def result(self) -> Neighbors:
        """Give what was found."""
        layers = tuple(
            LayerNeighbors(key, tuple(Neighbor(each, cosine) for cosine, _, each in sorted(best)[::-1]))
            for key, best in self._best.items()
        )
        words = heapq.nlargest(self._top_k, self._static.items(), key=lambda each: each[1])
        static = tuple(StaticNeighbor(word, cosine) for word, cosine in words)
        return Neighbors(self._query, layers, static, self._num_occurrences)

    def _places(self, words: list[str]) -> list[int]:
        if self._words == "any":
            return list(range(len(words)))
        is_wanted = self._words == "same"
        return [place for place, word in enumerate(words) if is_same_word(word, self._query.word) == is_wanted]

    def _compare(self, sentence: CorpusSentence, vectors: Mapping[LayerKey, Array]) -> None:
        words = tuple(sentence.words)
        places = [place for place in self._places(list(words)) if (words, place) not in self._seen]
        if not places:
            return
        for key, best in self._best.items():
            cosines = normalize(vectors[key][places]) @ self._vectors[key]
            for row in np.argsort(-cosines, kind="stable")[: self._top_k].tolist():
                place = places[row]
                entry = (float(cosines[row]), -next(self._numbers), Occurrence(sentence, place, place + 1))
                if len(best) == self._top_k and entry[:2] <= best[0][:2]:
                    break
                heapq.heappush(best, entry)
                if len(best) > self._top_k:
                    heapq.heappop(best)
                self._seen.add((words, place))

    def _compare_words(self, model: Elmo, window: list[CorpusSentence]) -> None:
        """Layer 0 does not see the sentence, so each word is looked at once."""
        words = dict.fromkeys(word for sentence in window for word in sentence.words)
        new = [word for word in words if word not in self._static and not is_same_word(word, self._query.word)]
        if new:
            cosines = normalize(model.embed([new], layers=0)[0]) @ self._vectors[0]
            self._static.update(zip(new, cosines.tolist(), strict=True))
