"""The tests on a system that is not Linux, simulated by tests/other_system.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[1]


def run_there(*options):
    """Return what pytest prints on the other system."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.other_system", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def test_every_test_can_be_collected():
    counts = re.findall(r"^tests/\S+\.py: (\d+)$", run_there("--collect-only", "-q", "-m", ""), re.M)
    assert len(counts) > 100 and sum(map(int, counts)) > 2000


def test_tests_with_missing_requirements_are_skipped_by_name():
    output = run_there("-rs", "-m", "")
    for name in ("fork", "resource", "SIGKILL", "mkfifo"):
        assert f"this system has no {name}" in output
