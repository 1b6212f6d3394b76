"""A word in a sentence and a corpus -> the occurrences with the most similar vectors, layer by layer.

An index is searched (index.py); text files are read and embedded from end to end, in bounded memory.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from elmo.analysis.index import CorpusIndex
from elmo.analysis.layers import (
    Array,
    LayerKey,
    choose_layers,
    embed_layers,
    embed_occurrences,
    name_layer,
    normalize,
    settings_for,
)
from elmo.analysis.occurrences import (
    Corpus,
    CorpusFilter,
    CorpusSentence,
    Occurrence,
    TextSettings,
    find_runs,
    read_query,
    reading_corpus,
)
from elmo.analysis.segmentation import Cohesion, is_function_word, measure_cohesion
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.progress import html_table
from elmo.text.sentence_input import Sentence, WordIndex
from elmo.text.vocabulary import is_punctuation

Match: TypeAlias = Literal["any", "same", "other"]
_SENTENCES_AT_ONCE = 256
# A sentence that is in the corpus several times is returned once, so more are searched for than are wanted.
_SEARCH_FACTOR = 3
# A word of several characters is compared with this many candidates for each neighbour, which the mean of their
# characters chooses (in an index, single characters), and in an index with this many occurrences of the same word.
_CANDIDATES, _SAME_WORD = 30, 2000


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
    query = read_query(
        sentence, index, tokenization=model.tokenization, on_spaces=reading is not None and reading.split_on_spaces
    )
    length = query.end - query.start
    has_runs = length > 1 and model.tokenization.reads_characters
    if words != "any" and length > 1 and not has_runs:
        raise InputError(f"{query.word!r} is several words, but words={words!r} compares single ones; mark one.")
    vectors = embed_query(model, query, (0, *keys))
    if isinstance(corpus, CorpusIndex):
        neighbors = search_index(corpus, query, vectors, words=words, corpus_filter=corpus_filter, top_k=top_k)
        if not has_runs:
            return neighbors
        # The index has the vectors of single characters; the words that have one near to the query are candidates.
        candidates = _find_candidates(corpus, query, vectors, words, corpus_filter, top_k)
        static = tuple(each for each in neighbors.static if each.word not in _run_of(query))
        neighbors = replace(neighbors, static=static)
    else:
        scan_k, scanned = top_k, vectors
        if has_runs:
            scan_k, scanned = _CANDIDATES * top_k, _pool_query(model, query, (0, *keys))
        scan = _Scan(query, scanned, words=words, top_k=scan_k, length=length if has_runs else 1)
        with reading_corpus(corpus, settings_for(model, reading), corpus_filter, progress=progress) as sentences:
            scan.read(model, sentences)
        neighbors = scan.result()
        if not has_runs:
            return neighbors
        candidates = {layer.layer: [each.occurrence for each in layer.neighbors] for layer in neighbors.layers}
        neighbors = replace(neighbors, static=neighbors.static[:top_k])
    return replace(neighbors, layers=_rank_runs(model, query, vectors, candidates, top_k))


def embed_query(model: Elmo, query: Occurrence, keys: Sequence[LayerKey]) -> dict[LayerKey, Array]:
    """Return the query's vector of length 1 in each layer."""
    words, span = query.sentence.words, (query.start, query.end)
    return {key: normalize(model.embed_spans([words], [[span]], layers=key)[0][0]) for key in keys}


def _pool_query(model: Elmo, query: Occurrence, keys: Sequence[LayerKey]) -> dict[LayerKey, Array]:
    """Return the mean of the query's characters in each layer, of length 1."""
    (vectors,) = embed_layers(model, [query.sentence.words], keys)
    return {key: normalize(vectors[key][query.start : query.end].mean(axis=0)) for key in keys}


def _find_candidates(
    corpus: CorpusIndex,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    words: Match,
    corpus_filter: CorpusFilter | None,
    top_k: int,
) -> dict[LayerKey, list[Occurrence]]:
    """Return, for each layer, runs as long as the query in an index: the same word, or near characters."""
    length, run = query.end - query.start, _run_of(query)
    same = corpus.find_occurrences(query.word, max_occurrences=_SAME_WORD, corpus_filter=corpus_filter).occurrences
    candidates = {}
    for key in vectors:
        if key == 0:
            continue
        runs = {_place(each): each for each in same}
        if words != "same":
            for character, _ in corpus.search(
                vectors[key], key, word=query.word, corpus_filter=corpus_filter, top_k=_CANDIDATES * top_k
            ):
                sentence, last = character.sentence, len(character.sentence.offsets) - length
                for start in range(max(0, character.start - length + 1), min(character.start, last) + 1):
                    each = Occurrence(sentence, start, start + length)
                    runs.setdefault(_place(each), each)
        if words == "other":
            runs = {place: each for place, each in runs.items() if not find_runs(_run_of(each), run)}
        runs.pop(_place(query), None)
        candidates[key] = list(runs.values())
    return candidates


def _rank_runs(
    model: Elmo,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    candidates: Mapping[LayerKey, Sequence[Occurrence]],
    top_k: int,
) -> tuple[LayerNeighbors, ...]:
    """Return the nearest candidates that are words; of those that overlap, the nearest."""
    run = _run_of(query)
    function_words = is_function_word(run)
    cohesions: dict[tuple[str, ...], Cohesion] = {}
    layers = []
    for key, occurrences in candidates.items():
        cosines = normalize(embed_occurrences(model, occurrences, key)) @ vectors[key]
        nearest: list[Neighbor] = []
        taken: set[tuple[tuple[str, ...], int]] = set()
        for row in np.argsort(-cosines, kind="stable").tolist():
            occurrence = occurrences[row]
            words = tuple(occurrence.sentence.words)
            places = {(words, place) for place in range(occurrence.start, occurrence.end)}
            if taken & places:
                continue
            if not find_runs(_run_of(occurrence), run):
                if words not in cohesions:
                    cohesions[words] = measure_cohesion(model, [words])[0]
                if not cohesions[words].is_word(occurrence.start, occurrence.end, function_words=function_words):
                    continue
            taken |= places
            nearest.append(Neighbor(occurrence, float(cosines[row])))
            if len(nearest) == top_k:
                break
        layers.append(LayerNeighbors(key, tuple(nearest)))
    return tuple(layers)


def _run_of(occurrence: Occurrence) -> list[str]:
    return occurrence.sentence.words[occurrence.start : occurrence.end]


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
    """The best occurrences of the sentences read so far, each sentence once.

    With a `length` above 1, runs of as many words are compared, by the mean of their vectors.
    """

    def __init__(
        self, query: Occurrence, vectors: Mapping[LayerKey, Array], *, words: Match, top_k: int, length: int = 1
    ) -> None:
        self._query, self._vectors, self._words, self._top_k = query, vectors, words, top_k
        self._length = length
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
        run = _run_of(self._query) if self._length > 1 else [self._query.word]
        if self._words == "same":
            return find_runs(words, run)
        same = set(find_runs(words, run)) if self._words == "other" else set()
        places = [place for place in range(len(words) - self._length + 1) if place not in same]
        if self._length == 1:
            return places
        return [place for place in places if not any(map(is_punctuation, words[place : place + self._length]))]

    def _compare(self, sentence: CorpusSentence, vectors: Mapping[LayerKey, Array]) -> None:
        words = tuple(sentence.words)
        places = [place for place in self._places(words) if (words, place) not in self._seen]
        if not places:
            return
        for key, best in self._best.items():
            pooled = sum(vectors[key][np.array(places) + number] for number in range(self._length))
            cosines = normalize(np.asarray(pooled)) @ self._vectors[key]
            for row in np.argsort(-cosines, kind="stable")[: self._top_k].tolist():
                place = places[row]
                if not self._keep(best, float(cosines[row]), Occurrence(sentence, place, place + self._length)):
                    break
                self._seen.add((words, place))

    def _keep(self, best: list[tuple[float, int, Occurrence]], cosine: float, occurrence: Occurrence) -> bool:
        """Put an occurrence among the best ones, and return whether it is one of them."""
        entry = (cosine, next(self._numbers), occurrence)
        if len(best) == self._top_k and entry[:2] <= best[0][:2]:
            return False
        heapq.heappush(best, entry)
        if len(best) > self._top_k:
            heapq.heappop(best)
        return True

    def _compare_static(self, model: Elmo, window: Sequence[CorpusSentence]) -> None:
        """Compare by layer 0, where each distinct word is embedded once."""
        words = dict.fromkeys(word for sentence in window for word in sentence.words)
        own = {word.casefold() for word in self._query.sentence.words[self._query.start : self._query.end]}
        new = [word for word in words if word not in self._static and word.casefold() not in own]
        if new:
            cosines = normalize(model.embed([new], layers=0)[0]) @ self._vectors[0]
            self._static.update(zip(new, cosines.tolist(), strict=True))
