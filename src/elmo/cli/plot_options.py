"""The options that all pictures share."""

from pathlib import Path
from typing import Annotated

import typer

PictureFile = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The picture, .png or .svg.")]
PictureFont = Annotated[
    Path | None,
    typer.Option(
        "--font", metavar="FILE", help="A font file to be used first; else fonts of this machine are found."
    ),
]
