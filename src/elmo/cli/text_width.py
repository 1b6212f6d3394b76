"""Moved to terminal; deleted when every importer has moved."""

from elmo.cli.terminal import fit, measure, pad, show

__all__ = ["fit", "measure", "pad", "show"]
