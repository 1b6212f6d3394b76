"""Saved models: locating, downloading, opening and writing them in several formats, and changing the vocabulary."""

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.vocabulary import change_vocabulary

__all__ = ["Checkpoint", "change_vocabulary", "open_checkpoint", "write_folder"]
