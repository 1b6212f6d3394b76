"""Deleted when every importer has moved."""

from typer.core import TyperCommand as TidyCommand

__all__ = ["TidyCommand"]
