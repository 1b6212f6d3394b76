"""Contextual word vectors from bidirectional language models (ELMo).

    from elmo import Elmo
    vectors = Elmo.from_pretrained().embed("I went to the bank")   # one row a word

Importing this package reads no file, starts no thread and imports no torch; names are loaded when used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo.version import __version__

if TYPE_CHECKING:
    from elmo.errors import CheckpointError, ConfigError, ElmoError, InputError
    from elmo.fusion import fuse
    from elmo.layer import ElmoLayer
    from elmo.model import Elmo
    from elmo.nn.scalar_mix import ScalarMix

__all__ = [
    "CheckpointError",
    "ConfigError",
    "Elmo",
    "ElmoError",
    "ElmoLayer",
    "InputError",
    "ScalarMix",
    "__version__",
    "fuse",
]

_PARTS = ("analysis", "tasks", "vectors")
_HOMES = {
    "Elmo": "elmo.model",
    "ElmoLayer": "elmo.layer",
    "fuse": "elmo.fusion",
    "ScalarMix": "elmo.nn.scalar_mix",
    **dict.fromkeys(("CheckpointError", "ConfigError", "ElmoError", "InputError"), "elmo.errors"),
}


if not TYPE_CHECKING:  # a type checker shall see misspelled names

    def __getattr__(name: str) -> Any:
        if name in _PARTS:
            return import_module(f"elmo.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'elmo' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PARTS, *(name for name in globals() if name.startswith("__"))])
