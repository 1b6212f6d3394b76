"""Find the occurrences in a corpus whose vectors are most similar to a word in a sentence, layer by layer.

An index is searched (index.py); text files are embedded from beginning to end, in bounded memory.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from elmo.analysis.index import CorpusIndex
from elmo.analysis.layers import Array, LayerKey, choose_layers, embed_layers
from elmo.analysis.occurrences import (
    Corpus,
    CorpusSentence,
    Neighbor,
    Occurrence,
    StaticNeighbor,
    TextSettings,
    find_occurrences,
    is_same_word,
    read_corpus,
    read_query,
    settings_for,
)
from elmo.analysis.segmentation import Cohesion, is_function_word, measure_cohesion
from elmo.errors import InputError
from elmo.inference.context import normalize
from elmo.model import Elmo

Match: TypeAlias = Literal["any", "same", "other"]
_SENTENCES_AT_ONCE = 256
# Repeated sentences are returned once, so more candidates are searched than requested.
_SEARCH_FACTOR = 3
# A word of several characters is compared with the runs around this many characters per requested neighbor, and with
# this many occurrences of the same word.
_CANDIDATES, _SAME_WORD = 30, 2000


@dataclass(frozen=True)
class Neighbors:
    """The nearest occurrences in each layer, best first.

    `static` has the nearest words in layer 0, which does not depend on the sentence.
    """

    query: Occurrence
    layers: dict[LayerKey, tuple[Neighbor, ...]]
    static: tuple[StaticNeighbor, ...]
    num_occurrences: int  # in the corpus

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "query": self.query.to_range(),
            "num_occurrences": self.num_occurrences,
            "layers": [
                {"layer": layer, "neighbors": [neighbor.to_dict() for neighbor in neighbors]}
                for layer, neighbors in self.layers.items()
            ],
            "static": [word.to_dict() for word in self.static],
        }


def find_neighbors(
    model: Elmo,
    sentence: str | Occurrence,
    corpus: Corpus,
    *,
    layers: Sequence[str | int] | None = None,
    words: Match = "any",
    top_k: int = 10,
    reading: TextSettings | None = None,
    show_progress_bar: bool = False,
) -> Neighbors:
    """Find the nearest occurrences to the word that is [marked] in the sentence.

    `layers` are numbers, "top", "average" or "meaning"; `words` is "same" for occurrences of the word itself, "other"
    for other words, "any" for both. Identical sentences are returned once, and the query's own sentence never.
    `reading` applies to text files; an index must have been built with the same model.
    """
    if words not in get_args(Match):
        raise InputError(f"words is {words!r}; choose {', '.join(get_args(Match))}.")
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; it must be at least 1.")
    if isinstance(corpus, CorpusIndex):
        on_spaces, keys = corpus.split_on_spaces, choose_layers(layers or corpus.layers, model)
    else:
        reading = settings_for(model, reading)
        on_spaces, keys = reading.split_on_spaces, choose_layers(layers, model)
    keys = tuple(key for key in keys if key != 0)
    query = read_query(sentence, tokenization=model.tokenization, on_spaces=on_spaces)
    is_phrase = len(query.words) > 1
    is_run = is_phrase and model.tokenization.reads_characters  # a run of characters
    if words != "any" and is_phrase and not is_run:
        raise InputError(f"{query.word!r} is several words, but words={words!r} compares single ones; mark one.")
    vectors = {key: normalize(array[0]) for key, array in embed_layers(model, [query], (0, *keys)).items()}
    num_candidates = (_CANDIDATES if is_run else _SEARCH_FACTOR) * top_k
    if isinstance(corpus, CorpusIndex):
        nearest = {
            key: corpus.search(vectors[key], key, word=query.word, words=words, top_k=num_candidates) for key in keys
        }
        static = corpus.search_words(vectors[0], exclude=query.words, top_k=num_candidates)
        num_occurrences = corpus.num_occurrences
    else:
        sentences = read_corpus(corpus, reading, show_progress_bar=show_progress_bar)
        nearest, static, num_occurrences = _scan_texts(model, query, vectors, sentences, words, num_candidates)
    if is_run:
        same_word = find_occurrences(corpus, query.word, max_occurrences=_SAME_WORD, reading=reading).occurrences
        nearest = _score_runs(model, query, vectors, nearest, same_word, words)
    by_layer = {key: _select(model, query, ranked, top_k) for key, ranked in nearest.items()}
    return Neighbors(query, by_layer, tuple(static[:top_k]), num_occurrences)


def _scan_texts(
    model: Elmo,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    sentences: Iterator[CorpusSentence],
    match: Match,
    top_k: int,
) -> tuple[dict[LayerKey, list[Neighbor]], list[StaticNeighbor], int]:
    """Return the nearest occurrences in each layer, the nearest words in layer 0, and the number of occurrences.

    Sentences without a word to compare are not embedded.
    """
    keys = [key for key in vectors if key != 0]
    best: dict[LayerKey, dict[Any, Neighbor]] = {key: {} for key in keys}  # by sentence and position
    cosines_of_words: dict[str, float] = {}
    query_words = {word.casefold() for word in query.words}
    num_occurrences = 0
    while window := list(itertools.islice(sentences, _SENTENCES_AT_ONCE)):
        occurrences = [
            Occurrence(sentence, start, start + 1) for sentence in window for start in range(len(sentence.offsets))
        ]
        num_occurrences += len(occurrences)
        new_words = {word for sentence in window for word in sentence.words} - cosines_of_words.keys()
        if words := sorted(word for word in new_words if word.casefold() not in query_words):
            cosines = normalize(model.embed([words], layers=0)[0]) @ vectors[0]
            cosines_of_words.update(zip(words, cosines.tolist(), strict=True))
        if match != "any":
            is_same = match == "same"
            occurrences = [entry for entry in occurrences if is_same_word(entry.word, query.word) == is_same]
        for key, embedded in embed_layers(model, occurrences, keys).items():
            for neighbor in _rank(occurrences, normalize(embedded) @ vectors[key]):
                if len(best[key]) >= 2 * top_k:
                    break
                best[key].setdefault(_position_keys(neighbor.occurrence), neighbor)
            ranked = sorted(best[key].items(), key=lambda item: -item[1].cosine)
            best[key] = dict(ranked[:top_k])
    static = sorted(itertools.starmap(StaticNeighbor, cosines_of_words.items()), key=lambda neighbor: -neighbor.cosine)
    return {key: list(nearest.values()) for key, nearest in best.items()}, static[:top_k], num_occurrences


def _rank(occurrences: Sequence[Occurrence], cosines: Array) -> Iterator[Neighbor]:
    for row in np.argsort(-cosines, kind="stable").tolist():
        yield Neighbor(occurrences[row], float(cosines[row]))


def _score_runs(
    model: Elmo,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    nearest: Mapping[LayerKey, Sequence[Neighbor]],
    same_word: Sequence[Occurrence],
    words: Match,
) -> dict[LayerKey, list[Neighbor]]:
    """Compare the query with runs of equal length: occurrences of its word, and runs around the nearest characters."""
    length, scored = len(query.words), {}
    for key, characters in nearest.items():
        runs = {_position_keys(occurrence): occurrence for occurrence in same_word}
        for character, _ in characters:
            sentence, last = character.sentence, len(character.sentence.offsets) - length
            for start in range(max(0, character.start - length + 1), min(character.start, last) + 1):
                run = Occurrence(sentence, start, start + length)
                runs.setdefault(_position_keys(run), run)
        occurrences = [run for run in runs.values() if words != "other" or not is_same_word(run.word, query.word)]
        embedded = embed_layers(model, occurrences, [key])[key]
        scored[key] = list(_rank(occurrences, normalize(embedded) @ vectors[key]))
    return scored


def _select(model: Elmo, query: Occurrence, ranked: Sequence[Neighbor], top_k: int) -> tuple[Neighbor, ...]:
    """Return the nearest occurrences, without overlaps and repeated sentences; runs of characters must be words."""
    function_words = is_function_word(query.words)
    cohesions: dict[tuple[str, ...], Cohesion] = {}
    chosen: list[Neighbor] = []
    taken = set(_position_keys(query))
    for neighbor in ranked:
        occurrence, keys = neighbor.occurrence, _position_keys(neighbor.occurrence)
        if not taken.isdisjoint(keys):
            continue
        if len(keys) > 1 and not is_same_word(occurrence.word, query.word):
            words = tuple(occurrence.sentence.words)
            if words not in cohesions:
                cohesions[words] = measure_cohesion(model, [words])[0]
            if not cohesions[words].is_word(occurrence.start, occurrence.end, function_words=function_words):
                continue
        taken.update(keys)
        chosen.append(neighbor)
        if len(chosen) == top_k:
            break
    return tuple(chosen)


def _position_keys(occurrence: Occurrence) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Return a key for each position of an occurrence; positions in identical sentences have equal keys."""
    words = tuple(occurrence.sentence.words)
    return tuple((words, position) for position in range(occurrence.start, occurrence.end))
