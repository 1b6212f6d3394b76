"""`elmo score`: text -> how well the language model foresaw each sentence, or each word."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.json_lines import to_json
from elmo.cli.opening import open_model
from elmo.cli.text_input import TextInput
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.inference.scoring import SentenceScore
    from elmo.text.vocabulary import Vocabulary

_INDENT = " " * 12


def score(
    inputs: options.Inputs = None,
    text: options.Texts = None,
    words: Annotated[bool, typer.Option("--by-word", help="Show the log probability of each word too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON a sentence, for programs.")] = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    split_on_spaces: options.SplitOnSpaces = False,
    device: options.Device = "cpu",
    state: options.StateChoice = options.State.zero,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Give the perplexity of each sentence of a text.

    It is low where the words come as expected, both from the left and from the right.

    \b
    Examples:
      elmo score sentences.txt
      elmo score --text "I went to the bank" --by-word
    """
    source = TextInput(inputs, text, output=None)
    elmo = open_model(model, format=format, device=device, state=state, local_files_only=local_files_only)
    lines = iter(source)
    index = 0
    with progress_bar(unit="sentences", num_bytes=source.num_bytes, prints=True) as advance:
        while window := list(islice(lines, options.sentences_at_once(state))):
            scores = elmo.score([line.text for line in window], split_on_spaces=split_on_spaces)
            for line, found in zip(window, scores, strict=True):
                if json:
                    print(to_json(_to_object(index, found, words=words)))
                else:
                    print(f"{found.perplexity:>10,.2f}  {' '.join(line.text.split())}".rstrip())
                    assert elmo.vocabulary is not None
                    for row in _to_rows(found, elmo.vocabulary) if words else ():
                        print(row)
                advance(line.num_bytes)
                index += 1


def _to_object(index: int, found: "SentenceScore", *, words: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "index": index,
        "words": list(found.words),
        "perplexity": found.perplexity,
        "num_unknown": found.num_unknown,
    }
    if words:
        values["left_to_right"] = [round(value, 6) for value in found.left_to_right.tolist()]
        values["right_to_left"] = [round(value, 6) for value in found.right_to_left.tolist()]
        values["end"], values["begin"] = round(found.end, 6), round(found.begin, 6)
        values["is_unknown"] = found.is_unknown.tolist()
    return values


def _to_rows(found: "SentenceScore", vocabulary: "Vocabulary") -> Iterator[str]:
    """Give a heading, then a line for each prediction: both log probabilities and the word."""
    yield f"{_INDENT}left to right  right to left"
    yield _to_row("", f"{found.begin:.3f}", vocabulary.begin)
    for word, ahead, back, unknown in zip(
        found.words, found.left_to_right, found.right_to_left, found.is_unknown, strict=True
    ):
        yield _to_row(f"{ahead:.3f}", f"{back:.3f}", f"{word} (unknown)" if unknown else word)
    yield _to_row(f"{found.end:.3f}", "", vocabulary.end)


def _to_row(ahead: str, back: str, word: str) -> str:
    return f"{_INDENT}{ahead:>13}  {back:>13}  {word}"
