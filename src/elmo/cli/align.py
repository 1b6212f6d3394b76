"""`elmo align`: a trained model, a teacher and some text -> the model with cosines nearer to the teacher's."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.opening import open_model
from elmo.cli.sentence_splitting import split_lines
from elmo.cli.text_input import TextInput
from elmo.errors import InputError
from elmo.files.durable import output_folder
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.model import Elmo
    from elmo.pretrain.alignment import ReadWords
    from elmo.pretrain.teacher import Teacher


def align(
    model: options.ModelArgument,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="Text files in UTF-8; - is standard input.")],
    teacher: Annotated[
        str, typer.Option(metavar="ENCODER", help="A Hugging Face encoder: a folder, or a name on the hub.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The folder to write.")],
    words: Annotated[int, typer.Option("--max-words", help="Maximum number of words of text to read.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that OUT holds already.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Bring a model's cosines nearer to a teacher's.

    It takes a minute or two, and the model predicts what it predicted. The vectors are written in another basis,
    one in which occurrences of a word that are near each other for the teacher are nearer. Needs the extra
    `distill`.

    \b
    Example:
      elmo align my-model texts.txt --teacher sentence-transformers/all-MiniLM-L6-v2 -o my-aligned-model
    """
    if words < 1:
        raise InputError(f"--max-words is {words}; give 1 or more, 100000 or so.")
    if seed < 0:
        raise InputError(f"--seed is {seed}; give 0 or more.")
    check_model_output(model, output, force=force, source_name="MODEL")
    source = TextInput(texts, None, output=None)
    from elmo.checkpoint.basis import change_basis, check_basis
    from elmo.checkpoint.folder import write_folder
    from elmo.pretrain import alignment
    from elmo.pretrain.teacher import Teacher

    elmo = open_model(model, format=format, local_files_only=local_files_only)
    check_basis(elmo.config)
    read = _read(elmo, Teacher(teacher), source, num_words=words)
    with progress_bar(unit="steps", num_bytes=None, prints=False) as advance:
        found = alignment.align(read, seed=seed, advance=lambda: advance(0))
    changed = change_basis(elmo.checkpoint(), words=found.words, layers=found.layers)
    with output_folder(output) as folder:
        write_folder(changed, folder)
    before, after = found.before, found.after
    print(
        f"Wrote {output} (words read: {len(read.words):,}). Cosines among occurrences of a word go with the "
        f"teacher's by {before.top:.3f} before and {after.top:.3f} now (top layer), {before.average:.3f} and "
        f"{after.average:.3f} (average): mean correlations, over words that were held out."
    )


def _read(model: "Elmo", teacher: "Teacher", source: TextInput, *, num_words: int) -> "ReadWords":
    from elmo.pretrain.alignment import read_words

    def sentences() -> Iterator[list[str]]:
        for sentence in split_lines(line.text for line in source):
            yield [word.text for word in model.tokenize(sentence)]

    with progress_bar(unit="words", num_bytes=None, prints=False) as advance:
        return read_words(
            model, teacher, sentences(), num_words=num_words, advance=lambda more: advance(0, num_pieces=more)
        )
