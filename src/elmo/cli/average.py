"""`elmo average`: models fine-tuned from a common ancestor -> the model with the mean of their weights."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.options import open_model_files
from elmo.files.durable import output_folder


def average(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Two or more models, such as checkpoints of one run.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Folder to write the model to.")],
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="Share of each model, in the order of the models; repeatable.", show_default="equal shares"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in OUT.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Average the weights of related models.

    The models must be fine-tuned from a common ancestor. Their mean is often better than each of them, as for the
    last checkpoints of a run, or a model before and after it learned from a teacher.

    \b
    Example:
      elmo average run/checkpoints/update-00009000 run/checkpoints/update-00010000 -o mean
    """
    for model in models:
        check_model_output(model, output, force=force, source_name="MODEL")
    from elmo.checkpoint import average as average_checkpoints
    from elmo.checkpoint import write_folder

    checkpoints = [open_model_files(name, format=format, local_files_only=local_files_only) for name in models]
    mean = average_checkpoints(checkpoints, share)
    with output_folder(output) as folder:
        write_folder(mean, folder)
    print(f"Wrote {output}, the mean of {len(models)} models.")
