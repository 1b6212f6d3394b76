"""A word in a sentence and a corpus -> the occurrences with the most similar vectors, layer by layer.

An index is searched (index.py); text files are read and embedded from end to end, in bounded memory.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from elmo.analysis.index import CorpusIndex
from elmo.analysis.layers import Array, LayerKey, choose_layers, embed_layers, name_layer, normalize
from elmo.analysis.occurrences import (
    Corpus,
    CorpusFilter,
    CorpusSentence,
    Occurrence,
    TextSettings,
    is_same_word,
    read_query,
    reading_corpus,
)
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.notebook import html_table
from elmo.text.sentence_input import Sentence, WordIndex

Match: TypeAlias = Literal["any", "same", "other"]
_SENTENCES_AT_ONCE = 256
# A sentence that is in the corpus several times is returned once, so more are searched for than are wanted.
_SEARCH_FACTOR = 3


class Neighbor(NamedTuple):
    """An occurrence and its cosine with the query."""

    occurrence: Occurrence
    cosine: float


class StaticNeighbor(NamedTuple):
    """A word without a sentence and its cosine with the query."""

    word: str
    cosine: float


class LayerNeighbors(NamedTuple):
    """The nearest occurrences by one layer, best first."""

    layer: LayerKey
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True)
class Neighbors:
    """The result of a search; `static` are the nearest words by layer 0, which does not see the sentence."""

    query: Occurrence
    layers: tuple[LayerNeighbors, ...]
    static: tuple[StaticNeighbor, ...]
    num_occurrences: int  # that were searched

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "query": {"words": self.query.sentence.words, "start": self.query.start, "end": self.query.end},
            "num_occurrences": self.num_occurrences,
            "layers": [
                {
                    "layer": found.layer,
                    "neighbors": [
                        {"cosine": round(each.cosine, 4), **each.occurrence.to_dict()} for each in found.neighbors
                    ],
                }
                for found in self.layers
            ],
            "static": [{"cosine": round(each.cosine, 4), "word": each.word} for each in self.static],
        }

    def _repr_html_(self) -> str:
        return "\n".join(
            html_table(
                [(each.cosine, each.occurrence.mark(10)) for each in found.neighbors],
                header=("cosine", "occurrence"),
                caption=f"nearest to {self.query.mark(10)} by {name_layer(found.layer)}",
            )
            for found in self.layers
        )


def find_neighbors(
    model: Elmo,
    sentence: Sentence,
    corpus: Corpus,
    *,
    index: WordIndex | None = None,
    layers: Sequence[str | int] | None = None,
    words: Match = "any",
    corpus_filter: CorpusFilter | None = None,
    top_k: int = 10,
    reading: TextSettings | None = None,
    progress: bool = False,
) -> Neighbors:
    """Find the occurrences nearest to a word: the one [marked] in the sentence, or the one with an `index`.

    `layers` are numbers, "top", "average" or "meaning"; `words` is "same" for occurrences of the word itself,
    "other" for those of other words, "any" for both. Equal sentences are returned once, the query's own never.
    `reading` is for text files; an index must have been built with the same model.
    """
    if words not in get_args(Match):
        raise InputError(f"words is {words!r}; choose {', '.join(get_args(Match))}.")
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; it must be at least 1.")
    if isinstance(corpus, CorpusIndex):
        reading = corpus.manifest.reading
        keys = choose_layers(layers or corpus.manifest.layers, model)
        corpus.check_layers(tuple(key for key in keys if key != 0))
    else:
        keys = choose_layers(layers, model)
    query = read_query(sentence, index, on_spaces=reading is not None and reading.split_on_spaces)
    if words != "any" and query.end - query.start > 1:
        raise InputError(f"{query.word!r} is several words, but words={words!r} compares single ones; mark one.")
    vectors = embed_query(model, query, (0, *keys))
    if isinstance(corpus, CorpusIndex):
        return search_index(corpus, query, vectors, words=words, corpus_filter=corpus_filter, top_k=top_k)
    scan = _Scan(query, vectors, words=words, top_k=top_k)
    with reading_corpus(corpus, reading, corpus_filter, progress=progress) as sentences:
        scan.read(model, sentences)
    return scan.result()


def embed_query(model: Elmo, query: Occurrence, keys: Sequence[LayerKey]) -> dict[LayerKey, Array]:
    """Return the query's vector of length 1 in each layer."""
    vectors = embed_layers(model, [query.sentence.words], keys)[0]
    return {key: normalize(vectors[key][query.start : query.end].mean(axis=0)) for key in keys}


def search_index(
    corpus: CorpusIndex,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    *,
    words: Match = "any",
    corpus_filter: CorpusFilter | None = None,
    top_k: int = 10,
) -> Neighbors:
    """Search an index with the vectors of embed_query."""
    layers = []
    for key, vector in vectors.items():
        if key != 0:
            found = corpus.search(
                vector, key, word=query.word, words=words, corpus_filter=corpus_filter,
                top_k=_SEARCH_FACTOR * top_k,
            )  # fmt: skip
            # The first of equal sentences is kept, and none that equals the query's.
            kept = {_place(query): Neighbor(query, 1.0)}
            for occurrence, cosine in found:
                kept.setdefault(_place(occurrence), Neighbor(occurrence, cosine))
            layers.append(LayerNeighbors(key, tuple(kept.values())[1 : top_k + 1]))
    static = corpus.search_words(vectors[0], word=query.word, top_k=top_k)
    return Neighbors(query, tuple(layers), tuple(map(StaticNeighbor._make, static)), corpus.count(corpus_filter))


def _place(occurrence: Occurrence) -> tuple[tuple[str, ...], int]:
    return tuple(occurrence.sentence.words), occurrence.start


class _Scan:
    """The best occurrences of the sentences read so far, each sentence once."""

    def __init__(self, query: Occurrence, vectors: Mapping[LayerKey, Array], *, words: Match, top_k: int) -> None:
        self._query, self._vectors, self._words, self._top_k = query, vectors, words, top_k
        # Heaps with the worst on top; of equal cosines the earlier one, with the higher number, is better.
        self._best: dict[LayerKey, list[tuple[float, int, Occurrence]]] = {key: [] for key in vectors if key != 0}
        self._static: dict[str, float] = {}
        self._seen = {_place(query)}
        self._num_occurrences = 0
        self._numbers = itertools.count(0, -1)

    def read(self, model: Elmo, sentences: Iterator[CorpusSentence]) -> None:
        """Compare the words of sentences; a sentence without a word to compare is not embedded."""
        while window := list(itertools.islice(sentences, _SENTENCES_AT_ONCE)):
            self._compare_static(model, window)
            chosen = [sentence for sentence in window if self._places(sentence.words)]
            embedded = embed_layers(model, [sentence.words for sentence in chosen], list(self._best))
            for sentence, vectors in zip(chosen, embedded, strict=True):
                self._compare(sentence, vectors)
            self._num_occurrences += sum(len(sentence.offsets) for sentence in window)

    def result(self) -> Neighbors:
        layers = tuple(
            LayerNeighbors(key, tuple(Neighbor(each, cosine) for cosine, _, each in sorted(best)[::-1]))
            for key, best in self._best.items()
        )
        words = heapq.nlargest(self._top_k, self._static.items(), key=lambda each: each[1])
        static = tuple(StaticNeighbor(word, cosine) for word, cosine in words)
        return Neighbors(self._query, layers, static, self._num_occurrences)

    def _places(self, words: Sequence[str]) -> list[int]:
        return [
            place
            for place, word in enumerate(words)
            if self._words == "any" or is_same_word(word, self._query.word) == (self._words == "same")
        ]

    def _compare(self, sentence: CorpusSentence, vectors: Mapping[LayerKey, Array]) -> None:
        words = tuple(sentence.words)
        places = [place for place in self._places(words) if (words, place) not in self._seen]
        if not places:
            return
        for key, best in self._best.items():
            cosines = normalize(vectors[key][places]) @ self._vectors[key]
            for row in np.argsort(-cosines, kind="stable")[: self._top_k].tolist():
                place = places[row]
                entry = (float(cosines[row]), next(self._numbers), Occurrence(sentence, place, place + 1))
                if len(best) == self._top_k and entry[:2] <= best[0][:2]:
                    break
                heapq.heappush(best, entry)
                if len(best) > self._top_k:
                    heapq.heappop(best)
                self._seen.add((words, place))

    def _compare_static(self, model: Elmo, window: Sequence[CorpusSentence]) -> None:
        """Compare by layer 0, where each distinct word is embedded once."""
        words = dict.fromkeys(word for sentence in window for word in sentence.words)
        new = [word for word in words if word not in self._static and not is_same_word(word, self._query.word)]
        if new:
            cosines = normalize(model.embed([new], layers=0)[0]) @ self._vectors[0]
            self._static.update(zip(new, cosines.tolist(), strict=True))
