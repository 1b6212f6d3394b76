"""A word in a sentence and a corpus -> the occurrences closest in meaning, layer by layer.

The corpus is an index, which is searched, or text files, which are read and embedded from end to end.
"""

from collections.abc import Callable, Mapping, Sequence

from elmo.analysis.corpus_index import CorpusIndex
from elmo.analysis.corpus_part import Part
from elmo.analysis.corpus_scan import CorpusScan
from elmo.analysis.corpus_text import ReadingSettings, read_corpus
from elmo.analysis.layer_choice import Array, LayerKey, choose_layer_keys, embed_keys, normalize
from elmo.analysis.neighbor_results import WORD_FILTERS, LayerNeighbors, Neighbor, Neighbors, WordFilter
from elmo.analysis.occurrences import Occurrence, point
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.text.marks import WordIndex
from elmo.text.sentence_input import Sentence

# Sentences that are in the corpus several times are shown once, so more are looked for than are wanted.
_MORE = 3


def find_neighbors(
    model: Elmo,
    sentence: Sentence,
    corpus: CorpusIndex | Sequence[str],
    *,
    index: WordIndex | None = None,
    layers: Sequence[str | int] | None = None,
    words: WordFilter = "any",
    part: Part | None = None,
    top_k: int = 10,
    reading: ReadingSettings | None = None,
    advance: Callable[[int, int], None] = lambda num_bytes, num_sentences: None,
) -> Neighbors:
    """Find the occurrences nearest to a word: one [marked] in the sentence, or the one of an `index`.

    `layers` are numbers, "top", "average" or "meaning"; `words` is "same" for occurrences of the word itself,
    "other" for those of other words, "any" for both. A sentence is given once, and never the one asked with.
    `reading` and `advance`, which is told what was read, are for text files; an index must be of the same model.
    """
    if words not in WORD_FILTERS:
        raise InputError(f"words is {words!r}; choose {', '.join(WORD_FILTERS)}.")
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; it must be at least 1.")
    if isinstance(corpus, CorpusIndex):
        reading = corpus.manifest.reading
        keys = choose_layer_keys(layers or corpus.manifest.layers, model)
        corpus.check_layers(tuple(key for key in keys if key != 0))
    else:
        keys = choose_layer_keys(layers, model)
    query = point(sentence, index, on_spaces=reading is not None and reading.split_on_spaces)
    if words != "any" and query.end - query.start > 1:
        raise InputError(f"{query.word!r} is several words, so others cannot be told from it; mark one word.")
    vectors = embed_query(model, query, (0, *keys))
    if isinstance(corpus, CorpusIndex):
        return search_index(corpus, query, vectors, words=words, part=part, top_k=top_k)
    scan = CorpusScan(query, vectors, words=words, top_k=top_k)
    sentences = read_corpus(corpus, reading, lambda num_bytes: advance(num_bytes, 0))
    scan.read(model, (each for each in sentences if part is None or each in part), lambda num: advance(0, num))
    return scan.result()


def embed_query(model: Elmo, query: Occurrence, keys: Sequence[LayerKey]) -> dict[LayerKey, Array]:
    """Give the vector of length 1 that the query has in each layer."""
    vectors = embed_keys(model, [query.sentence.words], keys)[0]
    return {key: normalize(vectors[key][query.start : query.end].mean(axis=0)) for key in keys}


def search_index(
    corpus: CorpusIndex,
    query: Occurrence,
    vectors: Mapping[LayerKey, Array],
    *,
    words: WordFilter = "any",
    part: Part | None = None,
    top_k: int = 10,
) -> Neighbors:
    """Search an index with the vectors of embed_query."""
    found = []
    for key, vector in vectors.items():
        if key != 0:
            nearest = corpus.search(vector, key, word=query.word, words=words, part=part, top_k=_MORE * top_k)
            found.append(LayerNeighbors(key, drop_repeated(query, nearest, top_k)))
    static = corpus.search_words(vectors[0], word=query.word, top_k=top_k)
    return Neighbors(query, tuple(found), tuple(static), corpus.count(part))


def drop_repeated(query: Occurrence, found: Sequence[Neighbor], top_k: int) -> tuple[Neighbor, ...]:
    """Keep the first of those in equal sentences, and none of the query's own."""
    seen = {(tuple(query.sentence.words), query.start)}
    kept = []
    for each in found:
        place = (tuple(each.occurrence.sentence.words), each.occurrence.start)
        if place not in seen:
            seen.add(place)
            kept.append(each)
    return tuple(kept[:top_k])
