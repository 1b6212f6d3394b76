"""Which precision to compute with: what was asked for -> what is used, and why."""

import json
import logging
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from elmo.errors import ConfigError
from elmo.files.durable import replace_file
from elmo.kernels.library import find_kernels

logger = logging.getLogger(__name__)
Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]
PRECISIONS = ("auto", "float32", "int8", "bfloat16")
LEAST_COSINE = 0.999  # with float32, the mean over words, in every layer

# Words of all kinds, for the check of "auto": frequent and rare ones, names, numbers, several scripts.
CHECK_SENTENCES = [
    ["I", "went", "to", "the", "bank", "to", "open", "an", "account", "."],
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "and", "watched", "the", "boats", "."],
    ["The", "committee", "'s", "report", ",", "published", "in", "1987", ",", "was", "widely", "criticised", "."],
    ["Dr.", "Alvarez", "moved", "from", "Buenos", "Aires", "to", "Reykjavik", "with", "3", "suitcases"],
    ["what", "is", "the", "fastest", "way", "to", "sort", "a", "list", "of", "numbers", "?"],
    ["NO", "!"],
    ["我", "用", "电", "脑", "写", "一", "封", "信", "。"],
    ["Der", "Zug", "nach", "München", "fährt", "um", "17:45", "Uhr", "ab", "."],
]


@dataclass(frozen=True)
class PrecisionChoice:
    """The precision to use, and why it was taken."""

    precision: Precision
    reason: str


def check_precision(requested: str) -> None:
    """Raise ConfigError for a precision that does not exist."""
    if requested not in PRECISIONS:
        raise ConfigError(f"precision is {requested!r}; choose one of {', '.join(PRECISIONS)}.")


def choose_precision(requested: str, *, keeps_int8: Callable[[], bool]) -> PrecisionChoice:
    """Choose the precision of LSTMs on a CPU; `keeps_int8` says whether 8 bits keep this model's vectors.

    "auto" is 8 bits wherever the library was compiled, for models whose vectors they keep, else float32.
    """
    check_precision(requested)
    if requested == "bfloat16":
        logger.warning("The precision bfloat16 needs a GPU; float32 is used.")
        return PrecisionChoice("float32", "bfloat16 needs a GPU")
    if requested != "auto":
        return PrecisionChoice(cast(Precision, requested), "as requested")
    kernels = find_kernels()
    if kernels.library is None:
        return PrecisionChoice("float32", f"there are no compiled kernels: {kernels.reason}")
    if keeps_int8():
        return PrecisionChoice("int8", f"8 bits keep a mean cosine of {LEAST_COSINE} with float32")
    logger.info("8 bits would change the vectors of this model too much; float32 is used.")
    return PrecisionChoice("float32", f"8 bits keep less than a mean cosine of {LEAST_COSINE} with float32")


def remember_check(folder: Path, fingerprint: str, check: Callable[[], bool]) -> bool:
    """Return what `check` returned for a model on this machine before; else run it and keep the result."""
    variant = find_kernels().reason
    path = folder / "precision" / f"{fingerprint[:32]}-{variant}-{platform.machine()}.json"
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["keeps_int8"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    result = check()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"keeps_int8": result}).encode())
    except OSError as error:  # a read-only home: it is checked again next time
        logger.debug("The check of 8 bits could not be stored: %s", error)
    return result
