"""`elmo vocab`: a trained model and a list of words -> the model with that vocabulary."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.opening import open_model_files
from elmo.errors import InputError
from elmo.files.durable import output_folder

if TYPE_CHECKING:
    from elmo.text.vocabulary import Vocabulary

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def vocab(
    model: options.ModelArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary", metavar="FILE", help="The whole new list, one word a line, special words included."
        ),
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option("--add", metavar="FILE", help="Words to add at the end of the list, one a line."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that OUT holds already.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Change the words a model predicts; nothing is trained.

    Words of both lists keep their weights bit for bit. New ones start as the average word; train on to improve
    them.

    \b
    Example:
      elmo vocab my-model my-larger-model --add new-words.txt
    """
    if vocabulary is not None and add is not None:
        raise InputError("--vocabulary and --add were both given; choose one: a whole new list, or words to add.")
    path = vocabulary or add
    if path is None:
        raise InputError("No words were given; name their file with --vocabulary or --add.")
    given = _read_words(path, "--vocabulary" if add is None else "--add")
    check_model_output(model, output, force=force, source_name="MODEL")
    from elmo.checkpoint.folder import write_folder
    from elmo.checkpoint.revocabulary import change_vocabulary, require_vocabulary

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
        raise InputError(f"{option} is {str(path)!r}, which is not a file; give a list of words, one a line.")
    content = path.read_bytes().removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    try:
        words = parse_lines(content)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 (byte {error.start}); convert it first, for example with iconv."
        ) from error
    return words


def _check_words(path: Path, words: list[str], old: "Vocabulary") -> None:
    """Refuse a list with counts or blank lines: what is new must be one word a line."""
    for number, word in enumerate(words, start=1):
        if word.split() != [word] and word not in old:
            raise InputError(
                f"{path}, line {number}, is {word!r:.60}; one word a line was expected, nothing else."
            )
