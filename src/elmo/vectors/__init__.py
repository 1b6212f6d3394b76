"""Text files of any size -> folders of vectors that survive a crash, and back.

1. `rows` reads files of any format row by row; a row that cannot be read is a BrokenRow with its reason.
2. `parts` cuts the rows into numbered parts, a fixed function of the input, whatever the number of workers.
3. `writing` computes the vectors of a part (`embedding`), in batches that depend on the part alone, and writes its
   files (`formats`) aside; then there is a record, then the files get their names. A finished part is never
   computed again.
4. `embed` runs all of this and writes the manifest last. `reading` opens the folder, `folder` verifies it.
"""

from elmo.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
