"""Large blocks of memory are reused without page faults."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
from elmo.heap import reuse_large_blocks
if sys.argv[1] == "reuse":
    reuse_large_blocks()
torch.set_num_threads(1)
for _ in range(20):
    torch.ones(2**23)  # 32 MB, 8,192 pages
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_faults(mode):
    return int(subprocess.run([sys.executable, "-c", SCRIPT, mode], capture_output=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is one of glibc")
def test_large_blocks_are_reused_if_requested():
    usual = count_faults("usual")
    if usual < 100:
        pytest.skip("this system's allocator keeps large blocks by itself")
    assert count_faults("reuse") < usual / 10
