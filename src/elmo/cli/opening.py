"""Moved to options; deleted when every importer has moved."""

from elmo.cli.options import open_model, open_model_files

__all__ = ["open_model", "open_model_files"]
