"""Contextual word vectors from bidirectional language models (ELMo).

    from elmo import Elmo
    vectors = Elmo.from_pretrained().embed("I went to the bank")   # one row per word

Importing this package starts no thread and imports no torch; the names in __init__.pyi are loaded when used.
"""

from elmo.extras import lazy_exports

__version__ = "0.3.0"
__getattr__, __dir__, __all__ = lazy_exports(__name__)
