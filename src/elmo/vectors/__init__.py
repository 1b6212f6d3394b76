"""Text files of any size -> crash-safe folders of vectors, and back.

1. elmo.corpus.rows reads files of any format row by row and cuts them into parts, which depend only on the input.
2. `writing` computes the vectors of a part, writes its files (`formats`) to a temporary folder, moves them to the
   output folder, and writes a record. A finished part is never computed again.
3. `embed` runs these steps and writes the manifest last. `reading` opens the folder, and `folder` verifies it.
"""

from elmo.extras import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
