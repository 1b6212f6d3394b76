"""`elmo export onnx|word2vec`: a model -> a file for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.help_text import TidyCommand
from elmo.cli.opening import open_model
from elmo.errors import InputError

export = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
Force = Annotated[bool, typer.Option("--force", help="Replace OUT.")]


@export.callback(invoke_without_command=True)
def explain(context: typer.Context) -> None:
    """Write a model for other programs: ONNX, word2vec."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


@export.command("onnx", cls=TidyCommand)
def onnx(
    model: options.ModelArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The .onnx file to write.")],
    force: Force = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Write a model as one ONNX file, for onnxruntime in any language.

    Character ids of words enter, all layers of their vectors leave; batch and sentence length are free. The
    language model's softmax and the context layer are not part of the file. Needs the extra `onnx`.

    \b
    Example:
      elmo export onnx en-small en-small.onnx
    """
    _check_output(output, force)
    from elmo.integrations.onnx import export_onnx

    opened = open_model(model, format=format, local_files_only=local_files_only)
    export_onnx(opened, output)
    size = output.stat().st_size / 1e6
    print(f"Wrote {output}: {opened.num_layers} layers of {opened.dim} dimensions, {size:,.1f} MB.")


@export.command("word2vec", cls=TidyCommand)
def word2vec(
    model: options.ModelArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write, .txt or .bin.")],
    words: Annotated[
        Path | None,
        typer.Option(
            "--words",
            metavar="FILE",
            show_default="the model's vocabulary",
            help="A text file in UTF-8 with one word per line.",
        ),
    ] = None,
    binary: Annotated[bool, typer.Option("--binary", help="Write numbers as bytes, not as text.")] = False,
    force: Force = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Write the vectors that words have without a sentence (layer 0), in the format of word2vec.

    gensim's KeyedVectors.load_word2vec_format reads it, and so do `elmo fuse` and `elmo task train` as text.

    \b
    Example:
      elmo export word2vec en-small vectors.bin --words words.txt --binary
    """
    _check_output(output, force)
    listed = None if words is None else _read_words(words)
    from elmo.integrations.word2vec import write_word2vec

    opened = open_model(model, format=format, local_files_only=local_files_only)
    num_words = write_word2vec(opened, output, listed, binary=binary)
    print(f"Wrote {output}: {num_words:,} words of {opened.config.encoder.output_dim} dimensions.")


def _check_output(output: Path, force: bool) -> None:
    if output.exists() and not force:
        raise InputError(f"{output} exists already; give another name, or --force to replace it.")


def _read_words(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it in UTF-8.") from error
    words = [line.rstrip("\r") for line in lines if line.strip()]
    for number, line in enumerate(lines, start=1):
        if len(line.split()) > 1:
            raise InputError(
                f"{path}, line {number}: {line.strip()!r:.60} has white space, which separates words in a "
                "word2vec file; give one word per line, phrases with underscores."
            )
    return [word.strip() for word in words]
