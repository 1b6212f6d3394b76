"""`elmo substitutes`: a sentence with a marked word -> what the language model would put there."""

import math
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.opening import open_model
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import check_text


def substitutes(
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence with one [marked] word.")],
    index: Annotated[
        int | None,
        typer.Option("--word-index", metavar="N", help="Number of the word, from 0, instead of brackets."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", help="How many words to show.")] = 10,
    punctuation: Annotated[bool, typer.Option("--punctuation", help="Offer punctuation too.")] = False,
    same_word: Annotated[bool, typer.Option("--same-word", help="Offer the marked word itself too.")] = False,
    json: options.AsJson = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Show the words that would fit in place of one, best first.

    Each comes with its share among the words considered: the product of both directions' probabilities, divided by
    the word's own frequency.

    \b
    Example:
      elmo substitutes "I was born in [Paris]" --top-k 5
    """
    check_text(sentence, "The sentence")
    if top_k < 1:
        raise InputError(f"--top-k is {top_k}; it must be at least 1.")
    elmo = open_model(model, format=format, device=device, local_files_only=local_files_only)
    found = elmo.substitutes(sentence, index, top_k=top_k, punctuation=punctuation, same_word=same_word)
    if json:
        words = [{"word": each.word, "log_probability": round(each.log_probability, 6)} for each in found]
        print(to_json({"sentence": sentence, "substitutes": words}))
    else:
        for each in found:
            print(f"{math.exp(each.log_probability):.4f}  {each.word}")
