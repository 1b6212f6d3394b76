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
    is_same_word,
    read_query,
    reading_corpus,
)
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.progress import html_table
from elmo.text.sentence_input import Sentence, WordIndex
from elmo.text.vocabulary import is_punctuation

Match: TypeAlias = Literal["any", "same", "other"]
_SENTENCES_AT_ONCE = 256
# A sentence that is in the corpus several times is returned once, so more are searched for than are wanted.
_SEARCH_FACTOR = 3
# With an index, a word of several letters is compared in this many sentences that have it, and in those of this
# many letters per neighbour.
_SAME_WORD, _LETTERS_SEARCHED = 2000, 30


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
    is_phrase = query.end - query.start > 1
    has_runs = is_phrase and model.tokenization.reads_characters
    if words != "any" and is_phrase and not has_runs:
        raise InputError(f"{query.word!r} is several words, but words={words!r} compares single ones; mark one.")
    vectors = embed_query(model, query, (0, *keys))
    scan_type = _RunScan if has_runs else _Scan
    if isinstance(corpus, CorpusIndex):
        found = search_index(corpus, query, vectors, words=words, corpus_filter=corpus_filter, top_k=top_k)
        if not has_runs:
            return found
        # The index has the vectors of single letters; those of words are compared in the sentences it finds.
        scan = scan_type(query, vectors, words=words, top_k=top_k)
        scan.read(model, iter(_find_candidates(corpus, query, vectors, words, corpus_filter, top_k)))
        own = query.sentence.words[query.start : query.end]
        static = tuple(each for each in found.static if each.word not in own)
        return replace(found, layers=scan.result().layers, static=static)
    scan = scan_type(query, vectors, words=words, top_k=top_k)
    with reading_corpus(corpus, settings_for(model, reading), corpus_filter, progress=progress) as sentences:
        scan.read(model, sentences)
    return scan.result()


def embed_query(model: Elmo, query: Occurrence, keys: Sequence[LayerKey]) -> dict[LayerKey, Array]:
    """Return the query's vector of length 1 in each layer."""
    words, span = query.sentence.words, (query.start, query.end)
    return {key: normalize(model.embed_spans([words], [[span]], layers=key)[0][0]) for key in keys}


def _find_candidates(
    corpus: CorpusIndex,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    words: Match,
    corpus_filter: CorpusFilter | None,
    top_k: int,
) -> list[CorpusSentence]:
    """Return sentences of an index that have the query's word, or letters near to it."""
    same = corpus.find_occurrences(query.word, max_occurrences=_SAME_WORD, corpus_filter=corpus_filter)
    found = same.occurrences if words != "other" else []
    if words != "same":
        for key in (key for key in vectors if key != 0):
            nearest = corpus.search(
                vectors[key], key, word=query.word, corpus_filter=corpus_filter, top_k=_LETTERS_SEARCHED * top_k
            )
            found += (occurrence for occurrence, _ in nearest)
    return list({(each.sentence.source, each.sentence.number): each.sentence for each in found}.values())


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
            self._compare_all(model, chosen)
            self._num_occurrences += sum(len(sentence.offsets) for sentence in window)

    def _compare_all(self, model: Elmo, sentences: Sequence[CorpusSentence]) -> None:
        embedded = embed_layers(model, [sentence.words for sentence in sentences], list(self._best))
        for sentence, vectors in zip(sentences, embedded, strict=True):
            self._compare(sentence, vectors)

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
                if not self._keep(best, float(cosines[row]), Occurrence(sentence, place, place + 1)):
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


class _RunScan(_Scan):
    """The same for a word of several letters, of a model that reads letters: runs of as many are compared.

    Of runs that overlap, the nearest counts. A run is read as one word, as a caller could give it.
    """

    def _places(self, words: Sequence[str]) -> list[int]:
        length = self._query.end - self._query.start
        same = set(find_runs(words, self._query.sentence.words[self._query.start : self._query.end]))
        if self._words == "same":
            return sorted(same)
        return [
            place
            for place in range(len(words) - length + 1)
            if not any(map(is_punctuation, words[place : place + length]))
            and (self._words == "any" or place not in same)
        ]

    def _compare_all(self, model: Elmo, sentences: Sequence[CorpusSentence]) -> None:
        for sentence in sentences:
            words = tuple(sentence.words)
            places = [place for place in self._places(words) if (words, place) not in self._seen]
            if not places:
                continue
            found = self._embed_runs(model, words, places)
            for key, best in self._best.items():
                taken: list[int] = []
                cosines = normalize(found[key]) @ self._vectors[key]
                for row in np.argsort(-cosines, kind="stable").tolist():
                    place, length = places[row], self._query.end - self._query.start
                    if any(abs(place - other) < length for other in taken):
                        continue
                    if not self._keep(best, float(cosines[row]), Occurrence(sentence, place, place + length)):
                        break
                    taken.append(place)
                    self._seen.add((words, place))

    def _embed_runs(self, model: Elmo, words: Sequence[str], places: Sequence[int]) -> dict[LayerKey, Array]:
        """Return the vectors (n, dimensions) of the runs that begin at some places."""
        length = self._query.end - self._query.start
        # Runs that do not overlap are embedded together.
        versions: dict[int, list[int]] = {}
        for row, place in enumerate(places):
            versions.setdefault(place % length, []).append(row)
        segmented: list[list[str]] = []
        where: list[tuple[int, int, int]] = []  # row, version and place in it
        for rows in versions.values():
            merged: list[str] = []
            at = 0
            for row in rows:
                merged += words[at : places[row]]
                where.append((row, len(segmented), len(merged)))
                merged.append(model.tokenization.join(words[places[row] : places[row] + length]))
                at = places[row] + length
            segmented.append([*merged, *words[at:]])
        embedded = embed_layers(model, segmented, list(self._best))
        found = {}
        for key in self._best:
            rows_of_key = [embedded[version][key][at] for _, version, at in sorted(where)]
            found[key] = np.stack(rows_of_key)
        return found
