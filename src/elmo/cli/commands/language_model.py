"""`elmo score`, `substitutes` and `evaluate`: how well the language model predicts words, and which."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elmo.cli import options
from elmo.cli.options import ModelOptions, expand_options, option
from elmo.cli.run import align_facts
from elmo.cli.text_input import TextInput
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import STDIN, check_text
from elmo.progress import progress_bar
from elmo.text.tokenize import split_lines

if TYPE_CHECKING:
    from elmo.inference.scoring import Evaluation, SentenceScore
    from elmo.model import Elmo
    from elmo.text.vocabulary import Vocabulary


_INDENT = " " * 12


@expand_options
def score(
    model: ModelOptions,
    inputs: options.Rows = None,
    text: options.Texts = None,
    column: options.Column = None,
    by_word: bool = option("--by-word", "Show the log probability of each word as well.", False),
    json: bool = option("--json", "Print one line of JSON per sentence.", False),
    split_on_spaces: options.SplitOnSpaces = False,
    state: options.StateChoice = "zero",
) -> None:
    """Print the perplexity of each sentence of a text.

    Perplexity is low where the words are expected, both from the left and from the right. Words outside the
    vocabulary count as the unknown word, which is easy to predict, so their number is shown.

    \b
    Examples:
      elmo score sentences.txt
      elmo score --text "I went to the bank" --by-word
    """
    source = TextInput(inputs, text, output=None, kind=None, column=column)
    elmo = model.open(texts=source.texts, state=state)
    lines = iter(source)
    index = 0
    with progress_bar(unit="sentences", num_bytes=source.num_bytes, prints=True) as advance:
        while window := list(islice(lines, options.sentences_at_once(state))):
            scores = elmo.score([line.content for line in window], split_on_spaces=split_on_spaces)
            for line, found in zip(window, scores, strict=True):
                if json:
                    print(to_json(_to_object(index, found, by_word=by_word)))
                else:
                    unknown = f"  ({found.num_unknown} unknown)" if found.num_unknown else ""
                    print(f"{found.perplexity:>10,.2f}  {' '.join(line.text.split())}".rstrip() + unknown)
                    assert elmo.vocabulary is not None
                    for row in _to_rows(found, elmo.vocabulary) if by_word else ():
                        print(row)
                advance(line.num_bytes)
                index += 1


@expand_options
def substitutes(
    sentence: options.MarkedSentence,
    model: ModelOptions,
    index: options.WordIndex = None,
    top_k: int = option("--top-k", "Number of words to print.", 10),
    punctuation: bool = option("--punctuation", "Include punctuation.", False),
    same_word: bool = option("--same-word", "Include the marked word itself.", False),
    json: options.AsJson = False,
) -> None:
    """Print the words that fit in place of one, best first.

    Each word comes with its share among the words considered: the probabilities of both directions multiplied,
    divided by the word's own frequency.

    \b
    Example:
      elmo substitutes "I was born in [Paris]" --top-k 5
    """
    from elmo.text.sentence_input import read_pointed
    from elmo.text.tokenize import tokenize

    check_text(sentence, "The sentence")
    if top_k < 1:
        raise InputError(f"--top-k is {top_k}; it must be at least 1.")
    read_pointed(sentence, index, tokenize, name="--word-index")  # reports mistakes before the model is opened
    elmo = model.open(texts=[sentence])
    found = elmo.substitutes(sentence, index, top_k=top_k, punctuation=punctuation, same_word=same_word)
    if json:
        words = [{"word": each.word, "log_probability": round(each.log_probability, 6)} for each in found]
        print(to_json({"sentence": sentence, "substitutes": words}))
    else:
        for each in found:
            print(f"{math.exp(each.log_probability):.4f}  {each.word}")


def _to_object(index: int, found: "SentenceScore", *, by_word: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "index": index,
        "words": list(found.words),
        "perplexity": found.perplexity,
        "num_unknown": found.num_unknown,
    }
    if by_word:
        values["left_to_right"] = [round(value, 6) for value in found.left_to_right.tolist()]
        values["right_to_left"] = [round(value, 6) for value in found.right_to_left.tolist()]
        values["end"], values["begin"] = round(found.end, 6), round(found.begin, 6)
        values["is_unknown"] = found.is_unknown.tolist()
    return values


def _to_rows(found: "SentenceScore", vocabulary: "Vocabulary") -> Iterator[str]:
    """Yield a heading, then one line per prediction: both log probabilities and the word."""
    rows = [("", f"{found.begin:.3f}", vocabulary.begin)]
    for word, ahead, back, unknown in zip(
        found.words, found.left_to_right, found.right_to_left, found.is_unknown, strict=True
    ):
        rows.append((f"{ahead:.3f}", f"{back:.3f}", f"{word} (unknown)" if unknown else word))
    rows.append((f"{found.end:.3f}", "", vocabulary.end))
    yield f"{_INDENT}left to right  right to left"
    for ahead_text, back_text, word in rows:
        yield f"{_INDENT}{ahead_text:>13}  {back_text:>13}  {word}"


@expand_options
def evaluate(
    texts: options.TextFiles,
    model: ModelOptions,
    split: Literal["lines", "sentences"] = option(
        "", "What a sentence is: each line, or what a splitter finds in running text.", "lines"
    ),
    split_on_spaces: options.SplitOnSpaces = False,
    state: options.StateChoice = "zero",
    json: options.AsJson = False,
) -> None:
    """Measure the perplexity of a language model on a text.

    The softmax is the full one, over every word of the vocabulary; the sampled one that training may show usually
    gives smaller numbers. Lines without words are left out.

    \b
    Example:
      elmo evaluate heldout.txt --model my-model --split-on-spaces
    """
    if model.model is None and _names_model(texts):
        model, texts = replace(model, model=texts[0]), texts[1:]
    for name in texts:
        if Path(name).is_dir():
            raise InputError(f"{name} is a folder; name the text to evaluate on, and the model with --model.")
        if name != STDIN and not Path(name).exists():
            raise InputError(
                f"There is no file {name!r} to evaluate on; name a text file, or - for standard input."
            )
    source = TextInput(texts, None, output=None, kind=None)
    elmo = model.open(state=state)
    from elmo.inference.scoring import evaluate_text

    with progress_bar(unit="lines", num_bytes=source.num_bytes, prints=False) as advance:

        def read() -> Iterator[str]:
            for line in source:
                yield line.text
                advance(line.num_bytes)

        sentences = split_lines(read()) if split == "sentences" else read()
        found = evaluate_text(elmo, sentences, split_on_spaces=split_on_spaces)
    print(to_json(_evaluation_object(elmo, found)) if json else align_facts(_evaluation_facts(elmo, found)))


def _names_model(texts: list[str]) -> bool:
    """Return whether the first argument is the model, as in earlier versions, not a text."""
    if len(texts) < 2 or texts[0] == STDIN:
        return False
    return not Path(texts[0]).is_file() or Path(texts[0]).suffix.lower() in (".hdf5", ".h5", ".zip")


def _evaluation_object(model: "Elmo", found: "Evaluation") -> dict[str, Any]:
    names = (
        "perplexity", "left_to_right_perplexity", "right_to_left_perplexity", "left_to_right_loss",
        "right_to_left_loss", "num_predictions", "num_sentences", "num_words", "num_unknown", "unknown_rate",
    )  # fmt: skip
    head = {"softmax": "full", "vocabulary_words": len(model.vocabulary or ()), "state": model.state}
    return head | {name: getattr(found, name) for name in names}


def _evaluation_facts(model: "Elmo", found: "Evaluation") -> dict[str, str]:
    return {
        "perplexity": f"{found.perplexity:,.3f}, both directions; full softmax over "
        f"{len(model.vocabulary or ()):,} words",
        "  left to right": f"{found.left_to_right_perplexity:,.3f}",
        "  right to left": f"{found.right_to_left_perplexity:,.3f}",
        "words": f"{found.num_words:,} in {found.num_sentences:,} sentences",
        "predictions": f"{found.num_predictions:,} in each direction: the words, and one boundary per sentence",
        "unknown words": f"{found.num_unknown:,} ({found.unknown_rate:.1%}), counted as the unknown word",
        "state": "carried from sentence to sentence" if model.state == "carry" else "zero before each sentence",
    }
