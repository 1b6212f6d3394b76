"""How fast this machine multiplies matrices in a precision: what the speed of a model is measured against."""

import functools
import time

import torch

from elmo.inference.packed_linear import pack_linear
from elmo.inference.precision import Precision
from elmo.inference.workers import Workers
from elmo.nn.bilm import BiLM

# A multiplication of this size is limited by arithmetic, and its result stays in the cache.
_NUM_ROWS, _INPUT_DIM, _OUTPUT_DIM = 256, 1024, 2048


def measure_product_limit(precision: Precision, workers: Workers, *, seconds: float = 0.5) -> float:
    """Return the operations per second that all workers reach together, two for each multiplication."""
    task = functools.partial(_multiply, precision, seconds)
    return sum(workers.run([task for _ in range(workers.num_workers)]))


def count_operations(bilm: BiLM) -> tuple[int, int]:
    """Return the operations for a word in its sentence, and those for a word seen the first time.

    Multiplications with weights alone are counted, and of the characters' network those after its convolutions.
    """
    directions = [*bilm.left_to_right.parameters(), *bilm.right_to_left.parameters()]
    tokens = [
        parameter
        for name, parameter in bilm.tokens.named_parameters()
        if name.startswith(("characters.highways.", "projection."))
    ]
    return _count(directions), _count(tokens)


def _count(parameters: list[torch.nn.Parameter]) -> int:
    return 2 * sum(parameter.numel() for parameter in parameters if parameter.dim() == 2)


def _multiply(precision: Precision, seconds: float) -> float:
    multiply = pack_linear(torch.rand(_OUTPUT_DIM, _INPUT_DIM), None, precision)
    inputs = torch.rand(_NUM_ROWS, _INPUT_DIM)
    multiply(inputs)
    best, start = 0.0, time.perf_counter()
    while (before := time.perf_counter()) - start < seconds:
        multiply(inputs)
        best = max(best, 2 * _NUM_ROWS * _INPUT_DIM * _OUTPUT_DIM / (time.perf_counter() - before))
    return best
