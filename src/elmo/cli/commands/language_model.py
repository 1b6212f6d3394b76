"""`elmo score`, `substitutes` and `evaluate`: the predictions of a language model and their quality."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elmo.cli import options
from elmo.cli.command import option
from elmo.cli.options import ModelOptions
from elmo.cli.terminal import align_facts
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import STDIN
from elmo.language import translate

if TYPE_CHECKING:
    from elmo.corpus.rows import Row
    from elmo.inference.scoring import Evaluation, SentenceScore
    from elmo.model import Elmo


_SENTENCES_AT_ONCE = 1024


def score(
    model: ModelOptions,
    inputs: options.Rows = None,
    text: options.Texts = None,
    column: options.Column = None,
    as_json: bool = option(
        "--json", "Print one line of JSON per sentence, with the log probabilities of its words.", False
    ),
    split_on_spaces: options.SplitOnSpaces = False,
    state: options.StateChoice = "zero",
) -> None:
    """Print the perplexity of each sentence of a text.

    Perplexity is low if both language models predict the words well. Words outside the vocabulary count as the unknown
    word, which is easy to predict, so their number is shown.

    \b
    Examples:
      elmo score sentences.txt
      elmo score "I went to the bank" --json
    """
    from elmo.cli.text_input import TextInput, text_of
    from elmo.corpus.rows import Columns

    source = TextInput(inputs, text, columns=Columns(column))
    elmo = model.open(source.texts, state=state)
    with source.rows("sentences", prints=True) as rows:
        for index, (row, scored) in enumerate(_score_rows(elmo, rows, split_on_spaces=split_on_spaces)):
            if as_json:
                print(to_json(_to_object(index, scored)))
                continue
            unknown = "  " + translate(f"({scored.num_unknown} unknown)") if scored.num_unknown else ""
            print(f"{scored.perplexity:>10,.2f}  {text_of(row)}".rstrip() + unknown)


def _score_rows(
    model: "Elmo", rows: Iterator["Row"], *, split_on_spaces: bool
) -> Iterator[tuple["Row", "SentenceScore"]]:
    # Sentences of one batch start in the same state, so carrying it over needs batches of one.
    batch_size = 1 if model.state == "carry" else _SENTENCES_AT_ONCE
    while batch := list(islice(rows, batch_size)):
        yield from zip(batch, model.score([row.content for row in batch], split_on_spaces=split_on_spaces), strict=True)


def substitutes(
    sentence: options.MarkedSentence,
    model: ModelOptions,
    top_k: int = option("--top-k", "Number of words to print.", 10, min=1),
    punctuation: bool = option("--punctuation", "Include punctuation.", False),
    same_word: bool = option("--same-word", "Include the marked word itself.", False),
    as_json: options.AsJson = False,
) -> None:
    """Print substitutes for a word in its sentence, best first.

    Each word is printed with its share among the candidates: the product of its probabilities in both directions,
    divided by its frequency.

    \b
    Example:
      elmo substitutes "I was born in [Paris]" --top-k 5
    """
    elmo = model.open([sentence])
    words = elmo.substitutes(sentence, top_k=top_k, punctuation=punctuation, same_word=same_word)
    if as_json:
        listed = [{"word": word.word, "log_probability": round(word.log_probability, 6)} for word in words]
        print(to_json({"sentence": sentence, "substitutes": listed}))
    else:
        for word in words:
            print(f"{math.exp(word.log_probability):.4f}  {word.word}")


def _to_object(index: int, score: "SentenceScore") -> dict[str, Any]:
    return {
        "index": index,
        "words": list(score.words),
        "perplexity": score.perplexity,
        "num_unknown": score.num_unknown,
        "left_to_right": [round(value, 6) for value in score.left_to_right.tolist()],
        "right_to_left": [round(value, 6) for value in score.right_to_left.tolist()],
        "end": round(score.end, 6),
        "begin": round(score.begin, 6),
        "is_unknown": score.is_unknown.tolist(),
    }


def evaluate(
    texts: options.TextFiles,
    model: ModelOptions,
    split: Literal["lines", "sentences"] = option("", "Unit of a sentence: a line, or a detected sentence.", "lines"),
    split_on_spaces: options.SplitOnSpaces = False,
    state: options.StateChoice = "zero",
    as_json: options.AsJson = False,
) -> None:
    """Measure the perplexity of a language model on a text.

    Uses the full softmax over the vocabulary; the sampled softmax of training usually gives lower numbers. Lines
    without words are skipped.

    \b
    Example:
      elmo evaluate heldout.txt --model my-model --split-on-spaces
    """
    from elmo.cli.text_input import TextInput, text_of
    from elmo.corpus.rows import Columns

    for name in texts:
        if name != STDIN and not Path(name).is_file():
            raise InputError(f"{name!r} is not a file; name text files, or -, and the model with --model.")
    source = TextInput(texts, columns=Columns(split=split))
    elmo = model.open(state=state)
    from elmo.inference.scoring import evaluate_text

    with source.rows("lines") as rows:
        evaluation = evaluate_text(elmo, map(text_of, rows), split_on_spaces=split_on_spaces)
    facts = _describe_evaluation(elmo, evaluation)
    print(to_json(facts) if as_json else align_facts(facts))


def _describe_evaluation(model: "Elmo", evaluation: "Evaluation") -> dict[str, Any]:
    names = (
        "perplexity", "left_to_right_perplexity", "right_to_left_perplexity", "left_to_right_loss",
        "right_to_left_loss", "num_predictions", "num_sentences", "num_words", "num_unknown", "unknown_rate",
    )  # fmt: skip
    settings = {"softmax": "full", "vocabulary_words": len(model.vocabulary or ()), "state": model.state}
    return {name: getattr(evaluation, name) for name in names} | settings
