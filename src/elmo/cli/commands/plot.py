"""`elmo plot KIND`: pictures of what was measured, each kind a command."""

from pathlib import Path
from typing import Annotated

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import CorpusOptions, MaxOccurrences, ModelOptions, OneLayer, Seed
from elmo.cli.terminal import say
from elmo.extras import require

PictureFile = Annotated[Path, option("--output -o FILE", "Picture to write, .png or .svg.")]


def similarity(
    first: Annotated[str, argument("SENTENCE", "A sentence.")],
    second: Annotated[str, argument("SENTENCE", "Another sentence, or the same.")],
    layers: options.Layers = None,
    output: PictureFile = Path("similarity.png"),
    split_on_spaces: options.SplitOnSpaces = False,
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
    elmo = model.open(texts=[first, second])
    words = [
        [word.text for word in elmo.tokenize(sentence, split_on_spaces=split_on_spaces)] for sentence in (first, second)
    ]
    draw_similarity_map(compare_sentences(elmo, *words, layers=layers), output)
    say(f"Wrote {output}.")


def map(
    word: Annotated[str, argument("WORD", "The word, in upper or lower case.")],
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


def training(
    run: Annotated[Path, argument("RUN", "Folder of a training run.")], output: PictureFile = Path("training.png")
) -> None:
    """Plot the curves of a training run.

    \b
    Example:
      elmo plot training run --output curves.png
    """
    require("torch", "train", "elmo plot training")
    from elmo.analysis import draw_training_curves

    draw_training_curves(run, output)
    say(f"Wrote {output}.")


def mixing(
    tasks: Annotated[list[Path], argument("TASK", "Folders of trained tasks, or of comparisons.")],
    output: PictureFile = Path("mixing.png"),
) -> None:
    """Plot the weight of each layer in tasks.

    These are the weights s_j of their learned mixes.

    \b
    Example:
      elmo plot mixing tagger sentiment entailment --output mixing.svg
    """
    require("torch", "tasks", "elmo plot mixing")
    from elmo.analysis import draw_mixing_weights, mixing_weights

    draw_mixing_weights([mix for task in tasks for mix in mixing_weights(task)], output)
    say(f"Wrote {output}.")


def learning(
    comparison: Annotated[Path, argument("RUN", "Folder that `elmo task train --compare --fractions …` wrote.")],
    output: PictureFile = Path("learning.png"),
) -> None:
    """Plot the learning curves of a comparison.

    They show the scores over the fractions of the training data.

    \b
    Example:
      elmo plot learning compared --output learning.png
    """
    require("torch", "tasks", "elmo plot learning")
    from elmo.analysis import draw_learning_curves

    draw_learning_curves(comparison, output)
    say(f"Wrote {output}.")
