"""A real Ray cluster on this machine; one of its workers is killed."""

from contextlib import suppress
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.vectors import VectorSettings, embed_files
from tests.vectors.conftest import PART_BYTES, WorkerKiller, read_all

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    # Ray warns about its own future and leaves the closing of its pipes to the collector.
    pytest.mark.filterwarnings("ignore"),
]
SETTINGS = VectorSettings(part_bytes=PART_BYTES)


@pytest.fixture(scope="module")
def cluster():
    # A runner's hooks would pack up the working folder; workers import what is installed.
    for attempts_left in (2, 1, 0):
        try:
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=100 * 2**20,
                log_to_driver=False,
                logging_level="error",
            )
            break
        except Exception as error:  # Ray waits 30 seconds for its node, which a busy machine may exceed
            ray.shutdown()
            if not attempts_left or "timed out during startup" not in str(error):
                raise
    yield
    ray.shutdown()


def worker_processes() -> list[int]:
    """The workers of a job, by the names that Ray gives its processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().startswith(b"ray::_RayWorker"):
                found.append(int(path.parent.name))
    return found


def test_two_ray_workers_write_the_same_folder(tiny_model, text_file, tmp_path, cluster, on_progress):
    embed_files(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    words = []
    on_progress(lambda num_words, num_bytes: words.append(num_words))
    vectors = embed_files(
        tiny_model,
        [text_file],
        tmp_path / "out",
        SETTINGS,
        engine="ray",
        num_workers=2,
        num_threads=2,
    )
    assert sum(words) == vectors.manifest["counts"]["num_words"]
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


@pytest.mark.needs("SIGKILL")
def test_a_ray_worker_killed_midway_is_replaced(tiny_model, text_file, tmp_path, cluster, on_progress):
    embed_files(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    kill_one = WorkerKiller(worker_processes)
    on_progress(kill_one)
    embed_files(
        tiny_model,
        [text_file],
        tmp_path / "out",
        SETTINGS,
        engine="ray",
        num_workers=2,
        num_threads=2,
    )
    assert kill_one.killed is not None
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_errors_in_ray_workers_are_reported_as_locally(tiny_model, tmp_path, cluster):
    path = tmp_path / "text.jsonl"
    path.write_text('{"text": "good"}\n{"body": "bad"}\n')
    with pytest.raises(InputError, match=r"text.jsonl, line 2, has no column"):
        embed_files(tiny_model, [path], tmp_path / "out", engine="ray", num_workers=1)


def test_no_cluster_at_an_address(tiny_model, text_file, tmp_path, cluster):
    ray.shutdown()
    with pytest.raises(InputError, match="No Ray cluster answers at '127.0.0.1:1'"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, engine="ray", address="127.0.0.1:1")


def test_a_cluster_that_does_not_start_in_time_is_one_sentence(tiny_model, text_file, tmp_path, monkeypatch):
    def fail(**options):
        raise Exception("The current node timed out during startup. More.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # the cluster of the tests before may still run
    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(InputError, match=r"No Ray cluster could be started here \(The current node timed out"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, engine="ray")
