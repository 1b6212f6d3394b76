"""Corpora of any size -> folders of vectors that survive a crash, and the way back.

1. `inputs` finds the files and what identifies them; `rows` reads them row by row, whatever their format, a row
   that cannot be read as a BrokenRow with its reason.
2. `parts` cuts the rows into numbered parts: a fixed function of the input, whatever the number of workers.
3. An engine (`engines`, `ray_engine`) hands the parts to workers, each with the model opened once. `part_writer`
   makes the vectors of a part (`embedding`), in batches that depend on the part alone, and writes its files
   (`formats`) aside; then they get their names, then there is a record. A part with a record is never done again.
4. `job` writes the manifest last, from the records. `vectors` reads the folder back, `verification` compares it.
"""

from elmo.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
