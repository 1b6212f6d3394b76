"""Parsers of untrusted bytes: the stored corpus in every run, short fuzzer runs among the slow tests."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, check

CORPUS = Path(__file__).with_name("corpus")
SECONDS = os.environ.get("ELMO_FUZZ_SECONDS", "20")


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_earlier_findings_are_read_or_refused_in_one_sentence(name, tmp_path):
    target = TARGETS[name](tmp_path)
    inputs = [*target.seeds.values(), *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]
    for content in inputs:
        check(target, content)


def test_the_requests_to_start_from_are_answered(tmp_path):
    target = TARGETS["http"](tmp_path)
    for name, content in target.seeds.items():
        status, body = target.loop.run_until_complete(target.post(target.paths[content[0]], content[1:]))
        assert status == 200, (name, body)


def test_a_target_reports_unexpected_exceptions(tmp_path, monkeypatch):
    target = TARGETS["csv"](tmp_path)
    monkeypatch.setattr("tests.fuzz.targets.open_reader", lambda *arguments, **options: [][0])
    with pytest.raises(IndexError):
        check(target, b"\0text,label\n")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_of_the_fuzzer_finds_nothing(name, tmp_path):
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed; it has wheels for Python 3.11 to 3.13 on Linux")
    command = [sys.executable, "-m", "tests.fuzz", name, f"-max_total_time={SECONDS}"]
    command.append(f"-artifact_prefix={tmp_path}/")
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, errors="replace", check=False
    )
    findings = [path.read_bytes() for path in tmp_path.iterdir()]
    assert done.returncode == 0, f"{findings!r}\n{done.stderr[-5000:]}"
    assert int(re.search(r"number_of_executed_units: (\d+)", done.stderr)[1]) > len(TARGETS)
