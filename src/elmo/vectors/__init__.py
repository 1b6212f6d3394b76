"""Corpora of any size -> folders of vectors that survive a crash, and the way back.

1. `inputs` finds the files and what identifies them; `rows` reads them row by row, whatever their format, a row
   that cannot be read as a BrokenRow with its reason.
2. `parts` cuts the rows into numbered parts: a fixed function of the input, whatever the number of workers.
3. An engine (`engines`, `ray_engine`) hands the parts to workers, each with the model opened once. `part_writer`
   makes the vectors of a part (`embedding`), in batches that depend on the part alone, and writes its files
   (`formats`) aside; then they get their names, then there is a record. A part with a record is never done again.
4. `job` writes the manifest last, from the records. `vectors` reads the folder back, `verification` compares it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo.vectors.job import run_job as run_job
    from elmo.vectors.settings import JobSettings as JobSettings
    from elmo.vectors.vectors import open_vectors as open

__all__ = ["JobSettings", "open", "run_job"]

_PLACES = {
    "JobSettings": ("elmo.vectors.settings", "JobSettings"),
    "open": ("elmo.vectors.vectors", "open_vectors"),
    "run_job": ("elmo.vectors.job", "run_job"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
