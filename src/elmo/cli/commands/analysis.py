"""`elmo similarity`, `neighbors` and `senses`: what a model knows of words and texts."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import CorpusOptions, ModelOptions
from elmo.cli.run import fit, pad, resumable
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elmo.analysis.neighbors import LayerNeighbors, Neighbors
    from elmo.analysis.senses import InductionScores, SenseScores, WordSenses
    from elmo.analysis.similarity import WordSimilarities


def similarity(
    sentences: Annotated[
        list[str], argument("SENTENCE", "Two or more sentences, each with one [marked] word, or none marked.")
    ],
    model: ModelOptions,
    index_a: int | None = option(
        "", "Index of the word in the first of two sentences, from 0, instead of brackets.", None
    ),
    index_b: int | None = option("", "Index of the word in the second sentence.", None),
    layers: options.MeaningChoice = None,
    by_layer: bool = option(
        "--by-layer", "Show each layer, 0 being the word without its sentence, and the meaning.", False
    ),
    json: options.AsJson = False,
) -> None:
    """Compare marked words, or whole sentences: a cosine.

    Two sentences print one number from -1 to 1, more a table. Where no word is marked, the sentences themselves
    are compared, by the vectors of `elmo encode`.

    \b
    Example:
      elmo similarity "I went to the [bank] to deposit money" "I sat by the [bank] of the river"
    """
    if by_layer and layers is not None:
        raise InputError("--by-layer shows every layer, so it takes no --layers; leave one of them out.")
    if layers == "all":
        raise InputError("--layers all gives a word several vectors; compare them with --by-layer.")
    if len(sentences) > 2 and (index_a is not None or index_b is not None):
        raise InputError(
            f"--index-a and --index-b are for two sentences, but {len(sentences)} were given; mark the words "
            "with brackets."
        )
    from elmo.analysis import compare_texts, compare_words
    from elmo.analysis.occurrences import read_query

    for sentence in sentences:
        check_text(sentence, "The sentence")
    meaning = None
    whole = index_a is None and index_b is None and not any("[" in sentence for sentence in sentences)
    if whole and (by_layer or layers is not None):
        raise InputError("Whole sentences are compared by one vector each; mark a word in brackets to use layers.")
    if whole:
        result, shown = compare_texts(model.open(texts=sentences), sentences), sentences
    else:
        indexes = [("--index-a", index_a), ("--index-b", index_b), *[("", None)] * len(sentences)]
        marked = list(zip(sentences, indexes, strict=False))
        for sentence, (name, index) in marked:
            if index is not None and "[" in sentence:
                raise InputError(
                    f"{name} is {index}, but the sentence {sentence!r:.80} has brackets too, which would count as "
                    "words; give one of the two."
                )
            read_query(sentence, index, name=name)  # reports mistakes before the model is opened
        chosen = options.read_layers(layers, names=options.ONE_VECTOR_LAYERS)
        opened = model.open(texts=sentences)
        words = [
            read_query(sentence, index, name=name, tokenization=opened.tokenization)
            for sentence, (name, index) in marked
        ]
        result = compare_words(opened, words, layers="all" if by_layer else chosen)
        if by_layer and opened.context is not None:
            meaning = compare_words(opened, words, layers="meaning").cosines
        shown = [word.mark() for word in result.words]
    if json:
        values = result.to_dict()
        for pair in values["pairs"] if meaning is not None else ():
            pair["cosine_by_meaning"] = float(meaning[pair["a"], pair["b"]])  # type: ignore[index]
        print(to_json(values))
    elif len(shown) == 2 and not by_layer:
        print(f"{result.cosines[0, 1]:.3f}  {shown[0]}  ~  {shown[1]}")
    else:
        rows = _tabulate_layers(result, meaning) if by_layer else _tabulate_pairs(result)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        print("\n".join(f"{number:>5}  {text}" for number, text in enumerate(shown, start=1)), end="\n\n")
        for row in rows:
            print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _tabulate_layers(result: "WordSimilarities", meaning: "NDArray[np.float64] | None") -> list[list[str]]:
    """Return one row per pair with one column per layer, and one for the meaning if the model has it."""
    names = [f"layer {number}" for number in range(len(result.cosines))]
    tables = [*result.cosines]
    if meaning is not None:
        names, tables = [*names, "meaning"], [*tables, meaning]
    rows = [["", *names]]
    for pair in result.to_dict()["pairs"]:
        a, b = pair["a"], pair["b"]
        rows.append([f"{a + 1} ~ {b + 1}", *(f"{table[a, b]:.3f}" for table in tables)])
    return rows


def _tabulate_pairs(result: "WordSimilarities") -> list[list[str]]:
    """Return one row and one column per sentence."""
    rows = [[" " * 5, *(str(number) for number in range(1, len(result.words) + 1))]]
    for number, cosines in enumerate(result.cosines.tolist(), start=1):
        rows.append([str(number), *(f"{value:.3f}" for value in cosines)])
    return rows


_CONTEXT_WORDS = 8
_CONTEXT_COLUMNS = 84


def neighbors(
    sentence: str | None = argument("SENTENCE", "A sentence with one [marked] word.", None),
    *,
    corpus: CorpusOptions,
    build: Path | None = option("--build INDEX", "Build this index of the corpus, resume it, or add to it.", None),
    index: options.WordIndex = None,
    layers: options.Layers = None,
    match: Literal["any", "same", "other"] = option(
        "--match", "Find occurrences of any word, of the same word, or of other words.", "any"
    ),
    top_k: int = option("--top-k", "Number of neighbours per layer.", 10),
    json: options.AsJson = False,
    model: ModelOptions,
) -> None:
    """Find where words are used as one is in a sentence.

    Each layer has its own neighbours; beside them are the nearest words by layer 0, which sees no sentence.

    \b
    Examples:
      elmo neighbors "made a spectacular [play] on the ground ball" --corpus texts.txt
      elmo neighbors --build index --corpus texts.txt.xz
      elmo neighbors "signed to do a Broadway [play]" --corpus index --match same
    """
    if build is not None:
        if sentence is not None or corpus.source or corpus.sentences:
            raise InputError(
                "--build builds an index and searches nothing; leave out SENTENCE, --source and --sentences."
            )
        return _build(build, corpus, layers, model, as_json=json)
    if sentence is None:
        raise InputError("Give a sentence with one [marked] word, or --build INDEX to build an index.")
    check_text(sentence, "The sentence")
    from elmo.analysis import find_neighbors

    opened, chosen = corpus.open(), corpus.filter
    found = find_neighbors(
        model.open(opened, texts=[sentence]), sentence, opened, index=index, layers=layers, words=match,
        corpus_filter=chosen, top_k=top_k, reading=corpus.reading, progress=True,
    )  # fmt: skip
    if not found.num_occurrences:
        what = "The corpus" if chosen.is_whole else "This part of the corpus"
        raise InputError(f"{what} has no words; choose one that has some.")
    print(to_json(found.to_dict()) if json else "\n".join(_describe_neighbors(found, match)))


def _build(
    folder: Path,
    corpus: CorpusOptions,
    layers: list[str] | None,
    model: ModelOptions,
    *,
    as_json: bool,
) -> None:
    if not corpus.corpus:
        raise InputError("There is no text to build an index of; name files with --corpus.")
    from elmo.analysis import build_index

    with resumable():
        built = build_index(
            model.open(), folder, corpus.corpus, layers=layers, reading=corpus.reading,
            model_name=model.model, progress=True,
        )  # fmt: skip
    manifest = built.manifest
    if as_json:
        print(to_json({**manifest.to_dict(), "num_occurrences": manifest.num_occurrences}))
        return
    names = ", ".join(map(str, manifest.layers))
    files = "file" if len(manifest.sources) == 1 else "files"
    print(
        f"{folder} has {manifest.num_occurrences:,} occurrences from {len(manifest.sources):,} {files}, by "
        f"{'layer' if len(manifest.layers) == 1 else 'layers'} {names}."
    )


def _describe_neighbors(found: "Neighbors", match: str) -> Iterator[str]:
    yield found.query.mark()
    yield f"Searched {found.num_occurrences:,} occurrences."
    for layer in found.layers:
        yield ""
        yield from _tabulate_neighbors(layer, found, match)


def _tabulate_neighbors(layer: "LayerNeighbors", found: "Neighbors", match: str) -> Iterator[str]:
    from elmo.analysis.layers import name_layer

    contexts = [
        f"{each.cosine:.3f}  {fit(each.occurrence.mark(_CONTEXT_WORDS), _CONTEXT_COLUMNS)}"
        for each in layer.neighbors
    ]
    if not contexts:
        nothing = f"{found.query.word!r} does not occur there, except in the query." if match == "same" else (
            "There is nothing except the query."
        )  # fmt: skip
        contexts = [f"       {nothing}"]
    static = [f"{each.cosine:.3f}  {each.word}" for each in found.static]
    yield f"{pad(name_layer(layer.layer), _CONTEXT_COLUMNS + 7)}  layer 0, no sentence"
    for number in range(max(len(contexts), len(static))):
        left = contexts[number] if number < len(contexts) else ""
        right = static[number] if number < len(static) else ""
        yield f"{pad(left, _CONTEXT_COLUMNS + 7)}  {right}".rstrip()


_SENSE_COLUMNS = 96
_WORDS_SHOWN = 20


def senses(
    word: str | None = argument(
        "WORD",
        "The word, in upper or lower case. Without it, all frequent words of --labelled are evaluated.",
        None,
    ),
    *,
    corpus: CorpusOptions,
    labelled: options.Labelled = None,
    layer: options.OneLayer = None,
    num_senses: int | None = option("--senses", "Number of senses, instead of detecting it.", None, min=1),
    max_occurrences: options.MaxOccurrences = 1000,
    min_occurrences: int = option(
        "", "Without WORD: minimum number of occurrences of a word to evaluate.", 50, min=2
    ),
    max_words: int | None = option("", "Without WORD: maximum number of words; more are sampled.", None, min=1),
    contexts: int = option("", "Number of typical contexts to show of each sense.", 3, min=0),
    seed: options.Seed = 0,
    json: options.AsJson = False,
    model: ModelOptions,
) -> None:
    """Find the senses that a word has in a text.

    Its occurrences are clustered; each sense is shown with typical contexts and with words that would fit there.

    \b
    Examples:
      elmo senses bank --corpus texts.txt
      elmo senses bank --labelled semcor.data.xml
      elmo senses --labelled semcor.data.xml --min-occurrences 50
    """
    from elmo.analysis import evaluate_induction, induce_senses, read_labelled

    if word is None:
        if labelled is None:
            raise InputError("Give a WORD to find the senses of, or --labelled FILE to evaluate all its words.")
        if num_senses is not None:
            raise InputError("--senses is for one WORD; each word of --labelled has its own number of senses.")
        words = read_labelled(labelled, tokenization=model.open().tokenization)
        scores = evaluate_induction(
            model.open(), words, layer=layer, min_occurrences=min_occurrences, max_occurrences=max_occurrences,
            max_words=max_words, seed=seed, progress=True,
        )  # fmt: skip
        print(to_json(scores.to_dict()) if json else "\n".join(_describe_scores(scores)))
        return
    (occurrences, num_found), elmo = corpus.find(word, labelled, model, max_occurrences, seed)
    found = induce_senses(
        elmo, word, occurrences, num_found=num_found, layer=layer, num_senses=num_senses, num_typical=contexts,
        seed=seed, progress=True,
    )  # fmt: skip
    print(to_json(found.to_dict()) if json else "\n".join(_describe_senses(found, detected=num_senses is None)))


def _describe_senses(found: "WordSenses", *, detected: bool) -> Iterator[str]:
    from elmo.analysis.senses import FEWEST_OCCURRENCES

    num_clustered = len(found.occurrences)
    sampled = f" ({num_clustered:,} of them sampled)" if num_clustered < found.num_found else ""
    senses, advice = "one sense" if len(found.senses) == 1 else f"{len(found.senses)} senses", ""
    if detected and len(found.senses) == 1 < num_clustered:
        senses, advice = "not clearly more than one sense", "; --senses 2 splits them"
    yield f"{found.word}: {senses} in {_count(found.num_found)}{sampled}{advice}."
    if num_clustered < FEWEST_OCCURRENCES:
        yield f"These are too few to tell senses apart; at least {FEWEST_OCCURRENCES} are needed."
    elif found.silhouette is not None and found.expected_silhouette is not None:
        yield f"Silhouette {found.silhouette:.3f}; a single cloud cut alike has {found.expected_silhouette:.3f}."
    for number, sense in enumerate(found.senses, start=1):
        yield ""
        yield f"{number}. {_count(sense.num_occurrences)}, {sense.num_occurrences / num_clustered:.0%}"
        if sense.substitutes:
            yield f"   would fit: {', '.join(each.word for each in sense.substitutes)}"
        for each in sense.typical:
            yield f"   {fit(each.mark(10), _SENSE_COLUMNS)}"
    if found.scores is not None:
        yield ""
        yield f"Against {found.scores.num_labels} labels:"
        yield from _tabulate_scores(found.scores)


def _describe_scores(found: "InductionScores") -> Iterator[str]:
    from elmo.analysis.senses import SenseScores

    count = sum(each.num_occurrences for each in found.words)
    words = "word" if len(found.words) == 1 else "words"
    yield f"{len(found.words):,} {words}, {_count(count)}; means over the words:"
    yield ""
    yield from _tabulate_scores(SenseScores(**found.mean))  # type: ignore[arg-type]
    yield ""
    yield "| word | occurrences | labels | clusters | adjusted Rand | V-measure |"
    yield "|---|---|---|---|---|---|"
    for each in sorted(found.words, key=lambda each: -each.num_occurrences)[:_WORDS_SHOWN]:
        scores = each.scores
        yield (
            f"| {each.word} | {each.num_occurrences} | {scores.num_labels} | {scores.num_clusters} | "
            f"{scores.adjusted_rand:.3f} | {scores.v_measure:.3f} |"
        )
    if len(found.words) > _WORDS_SHOWN:
        yield f"({len(found.words) - _WORDS_SHOWN:,} less frequent words are in --json.)"


def _tabulate_scores(scores: "SenseScores") -> Iterator[str]:
    yield "| | adjusted Rand | V-measure |"
    yield "|---|---|---|"
    yield f"| clusters | {scores.adjusted_rand:.3f} | {scores.v_measure:.3f} |"
    yield f"| one cluster | {scores.one_cluster_adjusted_rand:.3f} | {scores.one_cluster_v_measure:.3f} |"
    yield f"| random, same sizes | {scores.random_adjusted_rand:.3f} | {scores.random_v_measure:.3f} |"


def _count(number: int) -> str:
    return f"{number:,} occurrence{'' if number == 1 else 's'}"
