"""`elmo page`: the page of `elmo serve` with prepared examples, as files for any web host."""

from pathlib import Path
from typing import Annotated

import typer

from elmo.cli import options
from elmo.cli.commands.serve import check_packages


def page(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write the page to.")],
    model: options.ModelName = None,
    precision: options.PrecisionChoice = "float32",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Write the page of `elmo serve` as static files.

    It shows prepared examples and can be put on any web host, below any path. A page that was written to the
    folder before is replaced.

    \b
    Example:
      elmo page --output site
    """
    check_packages("elmo page")
    from elmo.serve.static_page import write_page

    num_files = write_page(output, model, precision=precision, local_files_only=local_files_only)
    print(f"Wrote {output}: {num_files} files. Look at it with: python -m http.server --directory {output}")
