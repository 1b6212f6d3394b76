"""`elmo average`: models of one descent -> the model whose weights are the mean of theirs."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.opening import open_model_files
from elmo.files.durable import output_folder


def average(
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Models, or checkpoints of a run.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The folder to write.")],
    share: Annotated[
        list[float] | None, typer.Option(help="Of each model, in their order; equal shares without it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that OUT holds already.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Average the weights of related models.

    They were trained from one another, or from a third one. The mean is often better than either: checkpoints of
    a run, or a model before and after it learned from a teacher.

    \b
    Example:
      elmo average run/checkpoints/update-00009000 run/checkpoints/update-00010000 -o mean
    """
    for model in models:
        check_model_output(model, output, force=force, source_name="MODEL")
    from elmo.checkpoint import average as averaging
    from elmo.checkpoint.folder import write_folder

    checkpoints = [open_model_files(name, format=format, local_files_only=local_files_only) for name in models]
    found = averaging.average(checkpoints, share)
    with output_folder(output) as folder:
        write_folder(found, folder)
    print(f"Wrote {output}, the mean of {len(models)} models.")
