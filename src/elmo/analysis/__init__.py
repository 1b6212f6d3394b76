"""What a model and its training know, in numbers and pictures.

from elmo import Elmo, analysis
index = analysis.build_index(Elmo.from_pretrained(), "index", ["texts.txt"])

The names in __init__.pyi are loaded when used.
"""

from elmo.extras import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
