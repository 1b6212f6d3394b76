"""`elmo plot similarity` and `elmo plot map`: plots of words in sentences."""

from pathlib import Path
from typing import Annotated

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import CorpusOptions, MaxOccurrences, ModelOptions, OneLayer, Seed
from elmo.cli.terminal import say

PictureFile = Annotated[Path, option("--output -o FILE", "Picture to write, .png or .svg.")]


def similarity(
    first: Annotated[str, argument("SENTENCE", "A sentence.")],
    second: Annotated[str, argument("SENTENCE", "Another sentence, or the same one.")],
    layers: options.Layers = None,
    output: PictureFile = Path("similarity.png"),
    *,
    model: ModelOptions,
) -> None:
    """Plot the similarity of the words of two sentences.

    \b
    Example:
      elmo plot similarity "I sat by the river bank" "The bank lent me money" --layers 0 --layers 2
    """
    from elmo.analysis import compare_sentences, draw_similarity_map
    from elmo.analysis.style import check_output

    check_output(output)
    draw_similarity_map(compare_sentences(model.open([first, second]), first, second, layers=layers), output)
    say(f"Wrote {output}.")


def map(
    word: Annotated[str, argument("WORD", "The word; case is ignored.")],
    *,
    corpus: CorpusOptions,
    layer: OneLayer = None,
    max_occurrences: MaxOccurrences = 500,
    output: PictureFile = Path("map.png"),
    seed: Seed = 0,
    model: ModelOptions,
) -> None:
    """Plot the occurrences of a word in two dimensions.

    They are colored by cluster; clusters are named by the words around them.

    \b
    Example:
      elmo plot map bank --corpus texts.txt --output bank.png
    """
    from elmo.analysis import draw_senses, map_senses
    from elmo.analysis.layers import choose_layer
    from elmo.analysis.style import check_output

    check_output(output)
    (occurrences, _), elmo = corpus.find(word, model, max_occurrences, seed)
    layers = [choose_layer(layer, elmo)]
    sense_map = map_senses(elmo, occurrences, layers=layers, seed=seed, show_progress_bar=True)
    draw_senses(sense_map, output)
    say(f"Wrote {output}: {len(occurrences):,} occurrences of {word!r} in {len(sense_map.names)} group(s).")
