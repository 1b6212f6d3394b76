"""`elmo similarity`, `neighbors` and `senses`: compare words and texts by their vectors."""

import itertools
import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import CorpusOptions, ModelOptions
from elmo.cli.run import resumable
from elmo.cli.terminal import align_rows, fit, pad
from elmo.corpus.settings import TextSettings
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.language import translate
from elmo.text.sentence_input import find_marks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elmo.analysis.neighbors import Neighbors
    from elmo.analysis.occurrences import Corpus
    from elmo.analysis.senses import WordSenses
    from elmo.analysis.similarity import WordSimilarities


def similarity(
    sentences: Annotated[
        list[str], argument("SENTENCE", "Two or more sentences, all with one [marked] word or all without.")
    ],
    model: ModelOptions,
    layers: options.LayerChoice = None,
    by_layer: bool = option("--by-layer", "Show every layer and meaning; layer 0 ignores the sentence.", False),
    as_json: options.AsJson = False,
) -> None:
    """Compute the cosine similarity of marked words or of whole sentences.

    For two sentences, print a number from -1 to 1; for more, a table. Without marked words, whole sentences are
    compared by the vectors of `elmo encode`.

    \b
    Example:
      elmo similarity "I went to the [bank] to deposit money" "I sat by the [bank] of the river"
    """
    if by_layer and layers is not None:
        raise InputError("--by-layer shows every layer, so it takes no --layers; leave one of them out.")
    from elmo.analysis import compare_texts, compare_words

    meaning = None
    is_marked = any(find_marks(sentence) or "[" in sentence for sentence in sentences)
    if not is_marked:
        if by_layer or layers is not None:
            raise InputError("Whole sentences are compared by one vector each; mark a word in brackets to use layers.")
        if all(map(os.path.isfile, sentences)):
            raise InputError(
                f"{sentences[0]!r} is the name of a file, but similarity takes the sentences themselves; embed files "
                "with elmo embed or elmo encode."
            )
        result = compare_texts(model.open(sentences), sentences)
    else:
        chosen = options.read_layers(layers)
        if chosen == "all":
            raise InputError("--layers is 'all', which has several vectors per word; use --by-layer to compare each.")
        opened = model.open(sentences)
        result = compare_words(opened, sentences, layers="all" if by_layer else chosen)
        if by_layer and opened.context is not None:
            meaning = compare_words(opened, sentences, layers="meaning").cosines
    shown = [word.mark() for word in result.words] if is_marked else sentences
    if as_json:
        values = result.to_dict()
        for pair in values["pairs"] if meaning is not None else ():
            pair["cosine_by_meaning"] = float(meaning[pair["a"], pair["b"]])  # type: ignore[index]
        print(to_json(values))
    elif len(shown) == 2 and not by_layer:
        print(f"{result.cosines[0, 1]:.3f}  {shown[0]}  ~  {shown[1]}")
    else:
        print("\n".join(f"{number:>5}  {text}" for number, text in enumerate(shown, start=1)), end="\n\n")
        print("\n".join(align_rows(_tabulate_layers(result, meaning) if by_layer else _tabulate_pairs(result))))


def _tabulate_layers(result: "WordSimilarities", meaning: "NDArray[np.float64] | None") -> Iterator[list[str]]:
    tables = {translate(f"layer {number}"): cosines for number, cosines in enumerate(result.cosines)}
    if meaning is not None:
        tables[translate("meaning")] = meaning
    yield ["", *tables]
    for a, b in itertools.combinations(range(len(result.words)), 2):
        yield [f"{a + 1} ~ {b + 1}", *(f"{cosines[a, b]:.3f}" for cosines in tables.values())]


def _tabulate_pairs(result: "WordSimilarities") -> Iterator[list[str]]:
    yield [" " * 5, *(str(number) for number in range(1, len(result.words) + 1))]
    for number, cosines in enumerate(result.cosines.tolist(), start=1):
        yield [str(number), *(f"{value:.3f}" for value in cosines)]


_CONTEXT_COLUMNS = 84


def neighbors(
    sentence: str | None = argument("SENTENCE", "A sentence with one [marked] word.", None),
    *,
    corpus: CorpusOptions,
    build: Path | None = option(
        "--build FOLDER",
        "Index a folder of vectors; with --corpus, write the vectors of these files there first (--layers: one layer "
        "or all). A sentence is then searched for in the index.",
        None,
    ),
    layers: options.Layers = None,
    match: Literal["any", "same", "other"] = option(
        "--match", "Words to find: any, only the same word, or only other words.", "any"
    ),
    top_k: int = option("--top-k", "Number of neighbors per layer.", 10),
    force: bool = option("--force", "With --build: build again; replace vectors of other files or settings.", False),
    as_json: options.AsJson = False,
    model: ModelOptions,
) -> None:
    """Find the occurrences that are most similar to a word in its sentence.

    Neighbors are listed per layer, next to the nearest words in layer 0, which ignores the sentence.

    \b
    Examples:
      elmo neighbors "made a spectacular [play] on the ground ball" --corpus texts.txt
      elmo neighbors --build vectors --corpus texts.txt.xz
      elmo neighbors "signed to do a Broadway [play]" --corpus vectors --match same
    """
    from elmo.analysis import build_index, find_neighbors

    opened: Corpus
    if build is not None:
        if layers and len(layers) > 1:
            raise InputError("An index has one layer, or all of them; give --layers once.")
        name = model.model or options.choose_model([] if sentence is None else [sentence])
        elmo = model.open(default=name)
        with resumable():
            opened = index = build_index(
                elmo, build, corpus.corpus, layers=layers[0] if layers else None,
                reading=TextSettings(**corpus.reading) if corpus.reading or corpus.corpus else None,
                model_name=name, force=force, show_progress_bar=True,
            )  # fmt: skip
        if sentence is None:
            facts = {"num_occurrences": index.num_occurrences, "layers": index.layers, "model": index.model_name}
            summary = f"{build} has {index.num_occurrences:,} occurrences; layers: {', '.join(map(str, index.layers))}."
            print(to_json(facts) if as_json else translate(summary))
            return
        layers = None  # search the layers of the index
    elif sentence is not None:
        opened, elmo = corpus.open(model, sentence)
    else:
        raise InputError("Give a sentence with one [marked] word, or --build FOLDER to build an index.")
    result = find_neighbors(
        elmo, sentence, opened, layers=layers, words=match, top_k=top_k, reading=TextSettings(**corpus.reading),
        show_progress_bar=True,
    )  # fmt: skip
    print(to_json(result.to_dict()) if as_json else "\n".join(_describe_neighbors(result)))


def _describe_neighbors(result: "Neighbors") -> Iterator[str]:
    from elmo.analysis.layers import name_layer

    yield result.query.mark()
    yield translate(f"Searched {result.num_occurrences:,} occurrences.")
    static = [f"{cosine:.3f}  {word}" for word, cosine in result.static]
    for layer, nearest in result.layers.items():
        contexts = [f"{cosine:.3f}  {fit(occurrence.mark(), _CONTEXT_COLUMNS)}" for occurrence, cosine in nearest]
        yield ""
        yield f"{pad(translate(name_layer(layer)), _CONTEXT_COLUMNS + 7)}  {translate('layer 0 (no context)')}"
        for left, right in itertools.zip_longest(contexts or [translate("No results.")], static, fillvalue=""):
            yield f"{pad(left, _CONTEXT_COLUMNS + 7)}  {right}".rstrip()


_SENSE_COLUMNS = 96


def senses(
    word: Annotated[str, argument("WORD", "The word; case is ignored.")],
    *,
    corpus: CorpusOptions,
    layer: options.OneLayer = None,
    num_senses: int | None = option("--senses", "Number of senses, instead of detecting it.", None, min=1),
    max_occurrences: options.MaxOccurrences = 1000,
    contexts: int = option("", "Number of typical contexts to show per sense.", 3, min=0),
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    model: ModelOptions,
) -> None:
    """Find the senses of a word in a corpus.

    Its occurrences are clustered; each sense is shown with typical contexts and with words that would fit there.

    \b
    Example:
      elmo senses bank --corpus texts.txt
    """
    from elmo.analysis import induce_senses

    (occurrences, num_found), elmo = corpus.find(word, model, max_occurrences, seed)
    result = induce_senses(
        elmo, word, occurrences, num_found=num_found, layer=layer, num_senses=num_senses, num_typical=contexts,
        seed=seed, show_progress_bar=True,
    )  # fmt: skip
    print(to_json(result.to_dict()) if as_json else "\n".join(_describe_senses(result, detected=num_senses is None)))


def _describe_senses(result: "WordSenses", *, detected: bool) -> Iterator[str]:
    from elmo.analysis.senses import FEWEST_OCCURRENCES

    num_clustered = len(result.occurrences)
    yield translate(f"{result.word}: {len(result.senses)} sense(s) in {result.num_found:,} occurrences.")
    if num_clustered < result.num_found:
        yield translate(f"{num_clustered:,} of them, sampled, were clustered.")
    if detected and num_clustered < FEWEST_OCCURRENCES:
        yield translate(f"These are too few to tell senses apart; at least {FEWEST_OCCURRENCES} are needed.")
    elif detected and len(result.senses) == 1:
        yield translate("They do not clearly have more than one sense; --senses 2 splits them anyway.")
    for number, sense in enumerate(result.senses, start=1):
        yield ""
        share = sense.num_occurrences / num_clustered
        yield f"{number}. {translate(f'{sense.num_occurrences:,} occurrences')}, {share:.0%}"
        if sense.substitutes:
            yield "   " + translate(f"substitutes: {', '.join(word.word for word in sense.substitutes)}")
        for occurrence in sense.typical:
            yield f"   {fit(occurrence.mark(), _SENSE_COLUMNS)}"
