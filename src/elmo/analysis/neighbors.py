"""A word in a sentence and a corpus -> the occurrences with the most similar vectors, layer by layer.

An index is searched (index.py); text files are read and embedded from end to end, in bounded memory.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

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
    CorpusSentence,
    Occurrence,
    TextSettings,
    find_runs,
    is_same_word,
    read_corpus,
    read_query,
)
from elmo.analysis.segmentation import Cohesion, is_function_word, measure_cohesion
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.progress import html_table
from elmo.text.sentence_input import Sentence, WordIndex
from elmo.text.vocabulary import is_punctuation

Match: TypeAlias = Literal["any", "same", "other"]
_Place: TypeAlias = tuple[tuple[str, ...], int]  # the words of a sentence, and where an occurrence begins
_SENTENCES_AT_ONCE = 256
# A sentence that is in the corpus several times is returned once, so more are searched for than are wanted.
_SEARCH_FACTOR = 3
# A word of several characters is compared with this many candidates for each neighbor, which the mean of their
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
                    "layer": layer,
                    "neighbors": [
                        {"cosine": round(cosine, 4), **occurrence.to_dict()} for occurrence, cosine in neighbors
                    ],
                }
                for layer, neighbors in self.layers
            ],
            "static": [{"cosine": round(cosine, 4), "word": word} for word, cosine in self.static],
        }

    def _repr_html_(self) -> str:
        return "\n".join(
            html_table(
                [(cosine, occurrence.mark(10)) for occurrence, cosine in neighbors],
                header=("cosine", "occurrence"),
                caption=f"nearest to {self.query.mark(10)} by {name_layer(layer)}",
            )
            for layer, neighbors in self.layers
        )


def find_neighbors(
    model: Elmo,
    sentence: Sentence,
    corpus: Corpus,
    *,
    index: WordIndex | None = None,
    layers: Sequence[str | int] | None = None,
    words: Match = "any",
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
    is_run = query.end - query.start > 1 and model.tokenization.reads_characters  # of characters
    if words != "any" and query.end - query.start > 1 and not is_run:
        raise InputError(f"{query.word!r} is several words, but words={words!r} compares single ones; mark one.")
    vectors = embed_query(model, query, (0, *keys))
    if isinstance(corpus, CorpusIndex):
        neighbors = search_index(corpus, query, vectors, words=words, top_k=top_k)
        if is_run:
            candidates = _find_candidates(corpus, query, vectors, words, top_k)
    else:
        scanned, num_scanned, length = vectors, top_k, 1
        if is_run:
            num_scanned, length = _CANDIDATES * top_k, query.end - query.start
            (own,) = embed_layers(model, [query.sentence.words], (0, *keys))
            scanned = {key: normalize(own[key][query.start : query.end].mean(axis=0)) for key in own}
        sentences = read_corpus(corpus, settings_for(model, reading), progress=progress)
        neighbors = _scan_texts(model, query, scanned, sentences, words=words, top_k=num_scanned, length=length)
        candidates = {layer: [occurrence for occurrence, _ in nearest] for layer, nearest in neighbors.layers}
    if not is_run:
        return neighbors
    static = tuple(similar for similar in neighbors.static if similar.word not in _run_of(query))[:top_k]
    return replace(neighbors, layers=_rank_runs(model, query, vectors, candidates, top_k), static=static)


def embed_query(model: Elmo, query: Occurrence, keys: Sequence[LayerKey]) -> dict[LayerKey, Array]:
    """Return the query's vector of length 1 in each layer."""
    words, span = query.sentence.words, (query.start, query.end)
    return {key: normalize(model.embed_spans([words], [[span]], layers=key)[0][0]) for key in keys}


def search_index(
    corpus: CorpusIndex,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    *,
    words: Match = "any",
    top_k: int = 10,
) -> Neighbors:
    """Search an index with the vectors of embed_query."""
    layers = []
    for key, vector in vectors.items():
        if key != 0:
            nearest = corpus.search(vector, key, word=query.word, words=words, top_k=_SEARCH_FACTOR * top_k)
            # The first of equal sentences is kept, and none that equals the query's.
            kept = {_place(query): Neighbor(query, 1.0)}
            for occurrence, cosine in nearest:
                kept.setdefault(_place(occurrence), Neighbor(occurrence, cosine))
            layers.append(LayerNeighbors(key, tuple(kept.values())[1 : top_k + 1]))
    static = corpus.search_words(vectors[0], word=query.word, top_k=top_k)
    return Neighbors(query, tuple(layers), tuple(map(StaticNeighbor._make, static)), corpus.num_occurrences)


def _scan_texts(
    model: Elmo,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    sentences: Iterator[CorpusSentence],
    *,
    words: Match,
    top_k: int,
    length: int,
) -> Neighbors:
    """Compare the query with all words of sentences, or with runs of `length` words by the mean of their vectors.

    A sentence without a word to compare is not embedded.
    """
    best: dict[LayerKey, dict[_Place, Neighbor]] = {key: {} for key in vectors if key != 0}
    cosines_of_words: dict[str, float] = {}
    own_words = {word.casefold() for word in _run_of(query)}
    num_occurrences = 0
    while window := list(itertools.islice(sentences, _SENTENCES_AT_ONCE)):
        num_occurrences += sum(len(sentence.offsets) for sentence in window)
        distinct = dict.fromkeys(word for sentence in window for word in sentence.words)
        new = [word for word in distinct if word not in cosines_of_words and word.casefold() not in own_words]
        if new:
            cosines = normalize(model.embed([new], layers=0)[0]) @ vectors[0]
            cosines_of_words.update(zip(new, cosines.tolist(), strict=True))
        compared = [(sentence, _list_starts(sentence.words, query, words, length)) for sentence in window]
        compared = [(sentence, starts) for sentence, starts in compared if len(starts)]
        embedded = embed_layers(model, [sentence.words for sentence, _ in compared], list(best))
        for key, nearest in best.items():
            for (sentence, starts), layers in zip(compared, embedded, strict=True):
                pooled = sum(layers[key][starts + number] for number in range(length))
                cosines = normalize(np.asarray(pooled)) @ vectors[key]
                for row in np.argsort(-cosines, kind="stable")[:top_k].tolist():
                    occurrence = Occurrence(sentence, int(starts[row]), int(starts[row]) + length)
                    nearest.setdefault(_place(occurrence), Neighbor(occurrence, float(cosines[row])))
            nearest.pop(_place(query), None)
            best[key] = dict(sorted(nearest.items(), key=lambda item: -item[1].cosine)[:top_k])
    similar = sorted(cosines_of_words.items(), key=lambda item: -item[1])[:top_k]
    layers_found = tuple(LayerNeighbors(key, tuple(nearest.values())) for key, nearest in best.items())
    return Neighbors(query, layers_found, tuple(map(StaticNeighbor._make, similar)), num_occurrences)


def _list_starts(words: Sequence[str], query: Occurrence, match: Match, length: int) -> npt.NDArray[np.int64]:
    """Return where the words, or the runs of `length` words, begin that the query is compared with."""
    same = find_runs(words, _run_of(query) if length > 1 else [query.word]) if match != "any" else []
    starts = range(len(words) - length + 1)
    if match == "same":
        return np.array(same, np.int64)
    allowed = [start for start in starts if start not in same]
    if length > 1:
        allowed = [start for start in allowed if not any(map(is_punctuation, words[start : start + length]))]
    return np.array(allowed, np.int64)


def _find_candidates(
    corpus: CorpusIndex,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    words: Match,
    top_k: int,
) -> dict[LayerKey, list[Occurrence]]:
    """Return, for each layer, runs as long as the query in an index: the same word, or near characters."""
    length = query.end - query.start
    same = corpus.find_occurrences(query.word, max_occurrences=_SAME_WORD).occurrences
    candidates = {}
    for key in [key for key in vectors if key != 0]:
        runs = {_place(occurrence): occurrence for occurrence in same}
        if words != "same":
            for character, _ in corpus.search(vectors[key], key, word=query.word, top_k=_CANDIDATES * top_k):
                sentence, last = character.sentence, len(character.sentence.offsets) - length
                for start in range(max(0, character.start - length + 1), min(character.start, last) + 1):
                    occurrence = Occurrence(sentence, start, start + length)
                    runs.setdefault(_place(occurrence), occurrence)
        runs.pop(_place(query), None)
        is_other = words == "other"
        candidates[key] = [run for run in runs.values() if not (is_other and is_same_word(run.word, query.word))]
    return candidates


def _rank_runs(
    model: Elmo,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    candidates: Mapping[LayerKey, Sequence[Occurrence]],
    top_k: int,
) -> tuple[LayerNeighbors, ...]:
    """Return the nearest candidates that are words; of those that overlap, the nearest."""
    function_words = is_function_word(_run_of(query))
    cohesions: dict[tuple[str, ...], Cohesion] = {}
    layers = []
    for key, occurrences in candidates.items():
        cosines = normalize(embed_occurrences(model, occurrences, key)) @ vectors[key]
        nearest: list[Neighbor] = []
        taken: set[_Place] = set()
        for row in np.argsort(-cosines, kind="stable").tolist():
            occurrence = occurrences[row]
            words = tuple(occurrence.sentence.words)
            places = {(words, place) for place in range(occurrence.start, occurrence.end)}
            if taken & places:
                continue
            if not is_same_word(occurrence.word, query.word):
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


def _place(occurrence: Occurrence) -> _Place:
    return tuple(occurrence.sentence.words), occurrence.start
