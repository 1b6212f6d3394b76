"""Moved to run; deleted when every importer has moved."""

from elmo.cli.run import resumable

__all__ = ["resumable"]
