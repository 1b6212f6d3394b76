"""How far a score would move with other test examples of the same kind: the examples drawn again and again."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from elmo.analysis.probe_results import Score

_TIMES = 200


def resample_mean(values: npt.NDArray[np.float64]) -> Score:
    """Give the mean of the examples' values, and its deviation when they are redrawn."""
    return resample(len(values), lambda rows: float(values[rows].mean()))


def resample(num_examples: int, measure: Callable[[npt.NDArray[np.int64]], float]) -> Score:
    """Give what `measure` says of all examples, and its deviation when they are redrawn."""
    draw = np.random.default_rng(0)
    redrawn = [measure(draw.integers(num_examples, size=num_examples)) for _ in range(_TIMES)]
    return Score(measure(np.arange(num_examples)), float(np.std(redrawn)), "resampling")
