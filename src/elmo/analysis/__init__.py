"""What the vectors of a model know of words: similarity, neighbors, senses, and pictures of them.

from elmo import Elmo, analysis
index = analysis.build_index(Elmo.from_pretrained(), "vectors", ["texts.txt"])

The names in __init__.pyi are loaded when used.
"""

from elmo.extras import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
