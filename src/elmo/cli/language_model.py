"""`elmo score` and `elmo substitutes`: how well the language model predicts words, and which it would predict."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.options import open_model
from elmo.cli.text_input import TextInput
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.inference.scoring import SentenceScore
    from elmo.text.vocabulary import Vocabulary

_INDENT = " " * 12


def score(
    inputs: options.Rows = None,
    text: options.Texts = None,
    column: options.Column = None,
    by_word: Annotated[
        bool, typer.Option("--by-word", help="Show the log probability of each word as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per sentence.")] = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    split_on_spaces: options.SplitOnSpaces = False,
    device: options.Device = "cpu",
    state: options.StateChoice = options.State.zero,
    local_files_only: options.LocalFilesOnly = False,
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
    elmo = open_model(model, format=format, device=device, state=state, local_files_only=local_files_only)
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


def substitutes(
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence with one [marked] word.")],
    index: Annotated[
        int | None,
        typer.Option("--word-index", metavar="N", help="Number of the word, from 0, instead of brackets."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", help="Number of words to print.")] = 10,
    punctuation: Annotated[bool, typer.Option("--punctuation", help="Include punctuation.")] = False,
    same_word: Annotated[bool, typer.Option("--same-word", help="Include the marked word itself.")] = False,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Print the words that fit in place of one, best first.

    Each word comes with its share among the words considered: the probabilities of both directions multiplied,
    divided by the word's own frequency.

    \b
    Example:
      elmo substitutes "I was born in [Paris]" --top-k 5
    """
    from elmo.text.marks import read_pointed
    from elmo.text.tokenize import tokenize

    check_text(sentence, "The sentence")
    if top_k < 1:
        raise InputError(f"--top-k is {top_k}; it must be at least 1.")
    read_pointed(sentence, index, tokenize, name="--word-index")  # reports mistakes before the model is opened
    elmo = open_model(model, format=format, device=device, local_files_only=local_files_only)
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
