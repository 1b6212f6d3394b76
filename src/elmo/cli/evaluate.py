"""`elmo evaluate`: a language model and a text -> its full-softmax perplexity."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli.opening import open_model
from elmo.cli.sentence_splitting import split_lines
from elmo.cli.text_input import TextInput
from elmo.errors import InputError
from elmo.files.rows import to_json
from elmo.files.sources import STDIN
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.inference.scoring import Evaluation
    from elmo.model import Elmo


class Split(str, Enum):
    """How the text is split into sentences."""

    lines = "lines"
    sentences = "sentences"


def evaluate(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="Text files in UTF-8; - is standard input.")],
    model: options.ModelName = None,
    split: Annotated[
        Split, typer.Option(help="What a sentence is: each line, or what a splitter finds in running text.")
    ] = Split.lines,
    split_on_spaces: options.SplitOnSpaces = False,
    state: options.StateChoice = options.State.zero,
    json: options.AsJson = False,
    format: options.ModelFormat = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Measure the perplexity of a language model on a text.

    The softmax is the full one, over every word of the vocabulary; the sampled one that training may show usually
    gives smaller numbers. Lines without words are left out.

    \b
    Example:
      elmo evaluate heldout.txt --model my-model --split-on-spaces
    """
    model, texts = _take_model(model, texts)
    for name in texts:
        if Path(name).is_dir():
            raise InputError(f"{name} is a folder; name the text to evaluate on, and the model with --model.")
        if name != STDIN and not Path(name).exists():
            raise InputError(
                f"There is no file {name!r} to evaluate on; name a text file, or - for standard input."
            )
    source = TextInput(texts, None, output=None)
    elmo = open_model(model, format=format, device=device, state=state, local_files_only=local_files_only)
    from elmo.inference.scoring import evaluate_text

    with progress_bar(unit="lines", num_bytes=source.num_bytes, prints=False) as advance:

        def read() -> Iterator[str]:
            for line in source:
                yield line.text
                advance(line.num_bytes)

        sentences = split_lines(read()) if split is Split.sentences else read()
        found = evaluate_text(elmo, sentences, split_on_spaces=split_on_spaces)
    print(to_json(_to_object(elmo, found)) if json else "\n".join(_to_lines(elmo, found)))


def _take_model(model: str | None, texts: list[str]) -> tuple[str | None, list[str]]:
    """Return model and texts; without --model the first argument may be the model, as in earlier versions."""
    if model is not None or len(texts) < 2 or texts[0] == STDIN:
        return model, texts
    is_text = Path(texts[0]).is_file() and Path(texts[0]).suffix.lower() not in (".hdf5", ".h5", ".zip")
    return (None, texts) if is_text else (texts[0], texts[1:])


def _to_object(model: "Elmo", found: "Evaluation") -> dict[str, Any]:
    names = (
        "perplexity", "left_to_right_perplexity", "right_to_left_perplexity", "left_to_right_loss",
        "right_to_left_loss", "num_predictions", "num_sentences", "num_words", "num_unknown", "unknown_rate",
    )  # fmt: skip
    head = {"softmax": "full", "vocabulary_words": len(model.vocabulary or ()), "state": model.state}
    return head | {name: getattr(found, name) for name in names}


def _to_lines(model: "Elmo", found: "Evaluation") -> list[str]:
    rows = {
        "perplexity": f"{found.perplexity:,.3f}, both directions; full softmax over "
        f"{len(model.vocabulary or ()):,} words",
        "  left to right": f"{found.left_to_right_perplexity:,.3f}",
        "  right to left": f"{found.right_to_left_perplexity:,.3f}",
        "words": f"{found.num_words:,} in {found.num_sentences:,} sentences",
        "predictions": f"{found.num_predictions:,} in each direction: the words, and one boundary per sentence",
        "unknown words": f"{found.num_unknown:,} ({found.unknown_rate:.1%}), counted as the unknown word",
        "state": "carried from sentence to sentence" if model.state == "carry" else "zero before each sentence",
    }
    width = max(map(len, rows)) + 2
    return [f"{name:<{width}}{value}" for name, value in rows.items()]
