"""`elmo align`: a trained model, a teacher and some text -> the model with cosines closer to the teacher's."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.opening import open_model
from elmo.cli.sentence_splitting import split_lines
from elmo.cli.text_input import TextInput
from elmo.errors import InputError
from elmo.files.durable import output_folder


def align(
    model: options.ModelArgument,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="Text files in UTF-8; - is standard input.")],
    teacher: Annotated[
        str, typer.Option(metavar="ENCODER", help="Hugging Face encoder: a folder, or a name on the hub.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Folder to write the model to.")],
    max_words: Annotated[int, typer.Option(help="Maximum number of words of text to read.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the model that OUT holds.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Bring a model's cosines closer to a teacher's.

    This takes a minute or two and does not change what the model predicts. The vectors are written in another
    basis, in which occurrences of a word that are similar for the teacher are more similar. Needs the extra
    `distill`.

    \b
    Example:
      elmo align my-model texts.txt --teacher sentence-transformers/all-MiniLM-L6-v2 -o my-aligned-model
    """
    if max_words < 1:
        raise InputError(f"--max-words is {max_words}; give 1 or more, for example 100000.")
    if seed < 0:
        raise InputError(f"--seed is {seed}; give 0 or more.")
    check_model_output(model, output, force=force, source_name="MODEL")
    source = TextInput(texts, None, output=None)
    from elmo.checkpoint.folder import write_folder
    from elmo.pretrain.alignment import align_model

    elmo = open_model(model, format=format, local_files_only=local_files_only)
    sentences = (
        [word.text for word in elmo.tokenize(sentence)] for sentence in split_lines(line.text for line in source)
    )
    aligned, found = align_model(elmo, sentences, teacher=teacher, max_words=max_words, seed=seed, progress=True)
    with output_folder(output) as folder:
        write_folder(aligned, folder)
    before, after = found.before, found.after
    print(
        f"Wrote {output} (words read: {found.num_words:,}). Correlation of cosines among occurrences of a word "
        f"with the teacher's, mean over held-out words: top layer {before.top:.3f} before, {after.top:.3f} now; "
        f"average of the layers {before.average:.3f} before, {after.average:.3f} now."
    )
