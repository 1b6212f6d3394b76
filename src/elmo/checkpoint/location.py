"""Where the files of a model are: a folder on disk or the inside of a zip archive, read alike."""

import zipfile
from pathlib import Path
from typing import TypeAlias

Location: TypeAlias = Path | zipfile.Path


def parent_of(path: Location) -> Location:
    """Give the folder a file is in."""
    parent = path.parent
    assert isinstance(parent, Path | zipfile.Path)
    return parent
