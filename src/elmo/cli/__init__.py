"""The command `elmo`: arguments in, text and exit code out. Nothing outside this folder prints.

Modules here import no torch, numpy or h5py until a command runs, so that help answers at once.
"""

from elmo.cli.run import main

__all__ = ["main"]
