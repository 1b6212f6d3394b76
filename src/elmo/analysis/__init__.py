"""Analysis of contextual word vectors: similarity, neighbors, senses, and plots of them.

from elmo import Elmo, analysis
index = analysis.build_index(Elmo.from_pretrained(), "vectors", ["texts.txt"])

The names in __init__.pyi are imported on first use.
"""

from elmo.extras import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
