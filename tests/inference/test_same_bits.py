"""Same sentence, same bits: alone, in any batch and order, on one thread or two, with any instruction set."""

import os
import subprocess
import sys

import numpy as np
import pytest

from elmo import Elmo
from tests.conftest import list_variants

SENTENCES = [
    "I went to the bank to open an account .",
    "bank",
    "",
    "The committee 's report , published in 1987 , was widely criticised by nearly everyone who read it .",
    "我 用 Kubernetes 和 Terraform 部署 服务",
    "x" * 60 + "a " + "x" * 60 + "b dog",
]
OTHERS = ["Something else entirely , of another length .", "!" * 30 + " " + "WORD " * 20] * 8

PROGRAM = """
import hashlib, sys, warnings
warnings.simplefilter("ignore")
from elmo import Elmo
from tests.inference.test_same_bits import SENTENCES
for precision in ("float32", "int8"):
    for name in ("en-small", "zh-small"):
        model = Elmo.from_pretrained(name, precision=precision, num_threads=1)
        digest = hashlib.sha256()
        for array in model.embed(SENTENCES, layers="all", split_on_spaces=True):
            digest.update(array.tobytes())
        print(precision, name, digest.hexdigest())
"""


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", ["en-small", "zh-small"])
def test_company_order_and_threads_change_no_bit(name, precision):
    if not list_variants():
        pytest.skip("BLAS, on which NumPy runs, does not promise the same bits in any batch")
    model = Elmo.from_pretrained(name, precision=precision, num_threads=1)
    alone = [model.embed([text], split_on_spaces=True, layers="all")[0] for text in SENTENCES]
    for num_threads in (1, 2):
        other = Elmo.from_pretrained(name, precision=precision, num_threads=num_threads)
        together = other.embed([*OTHERS, *SENTENCES, *OTHERS], split_on_spaces=True, layers="all")
        backwards = other.embed(SENTENCES[::-1], split_on_spaces=True, layers="all", batch_size=2)[::-1]
        lazily = list(other.embed_iter(SENTENCES, split_on_spaces=True, layers="all"))
        ours = together[len(OTHERS) : len(OTHERS) + len(SENTENCES)]
        for expected, *results in zip(alone, ours, backwards, lazily, strict=True):
            for array in results:
                np.testing.assert_array_equal(array, expected)


def test_every_instruction_set_gives_the_same_bits():
    """float32 and 8 bits, on every variant of the kernels that this processor runs."""
    variants = [variant for variant in list_variants() if variant != "portable"]
    if len(variants) < 2:
        pytest.skip("this processor has one instruction set of those that the kernels are made for")
    outputs = {}
    for variant in variants:
        environment = {**os.environ, "ELMO_KERNELS": variant}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        outputs[variant] = done.stdout
    assert len(set(outputs.values())) == 1, outputs
