"""What a saved model is, where it comes from, the formats of other programs, and models derived from others."""

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.derived import average, change_vocabulary
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.open import open_checkpoint

__all__ = ["Checkpoint", "average", "change_vocabulary", "open_checkpoint", "write_folder"]
