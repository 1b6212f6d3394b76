"""`elmo vocab`: a trained model and a list of words -> the model with that vocabulary."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.options import open_model_files
from elmo.errors import InputError
from elmo.files.durable import output_folder

if TYPE_CHECKING:
    from elmo.text.vocabulary import Vocabulary

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def vocab(
    model: options.ModelArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write the model to.")],
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary", metavar="FILE", help="The whole new vocabulary, one word per line, with special words."
        ),
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option("--add", metavar="FILE", help="Words to append to the vocabulary, one per line."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in OUT.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Change the vocabulary of a model without training.

    Words of both vocabularies keep their weights bit for bit. New words start as the average word; train the model
    further to improve them.

    \b
    Example:
      elmo vocab my-model my-larger-model --add new-words.txt
    """
    if vocabulary is not None and add is not None:
        raise InputError(
            "--vocabulary and --add were both given; choose one: a whole new vocabulary, or words to add."
        )
    path = vocabulary or add
    if path is None:
        raise InputError("No words were given; give a file with --vocabulary or --add.")
    given = _read_words(path, "--vocabulary" if add is None else "--add")
    check_model_output(model, output, force=force, source_name="MODEL")
    from elmo.checkpoint import change_vocabulary, write_folder
    from elmo.checkpoint.derived import require_vocabulary

    checkpoint = open_model_files(model, format=format, local_files_only=local_files_only)
    old = require_vocabulary(checkpoint)
    _check_words(path, given, old)
    words = given if add is None else [*old.words, *dict.fromkeys(word for word in given if word not in old)]
    changed = change_vocabulary(checkpoint, words)
    with output_folder(output) as folder:
        write_folder(changed, folder)
    num_kept = sum(word in old for word in words)
    print(
        f"Wrote {output} (words: {len(words):,}; kept: {num_kept:,}, new: {len(words) - num_kept:,}, "
        f"left out: {len(old) - num_kept:,})."
    )


def _read_words(path: Path, option: str) -> list[str]:
    from elmo.text.vocabulary import parse_lines

    if not path.is_file():
        raise InputError(f"{option} is {str(path)!r}, which is not a file; give a file with one word per line.")
    content = path.read_bytes().removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    try:
        return parse_lines(content)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 (byte {error.start}); convert it first, for example with iconv."
        ) from error


def _check_words(path: Path, words: list[str], old: "Vocabulary") -> None:
    """Raise InputError for a list with counts or blank lines: a new word must stand alone on its line."""
    for number, word in enumerate(words, start=1):
        if word.split() != [word] and word not in old:
            raise InputError(
                f"{path}, line {number}, is {word!r:.60}; one word per line was expected, nothing else."
            )
