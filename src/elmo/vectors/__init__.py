"""Text files of any size -> folders of vectors that survive a crash, and back.

1. elmo.corpus.rows reads files of any format row by row and cuts them into parts, a fixed function of the input.
2. `writing` computes the vectors of a part and writes its files (`formats`) to a temporary folder; then the files
   get their names, then there is a record. A finished part is never computed again.
3. `embed` runs all of this and writes the manifest last. `reading` opens the folder, `folder` verifies it.
"""

from elmo.extras import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
