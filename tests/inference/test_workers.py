"""Threads that share the cores: their number, their limits, and forked processes."""

import multiprocessing
import re
import threading

import pytest

from elmo import Elmo
from elmo.errors import ConfigError
from elmo.inference.workers import Workers


def test_results_are_in_the_order_of_the_tasks():
    assert Workers(2).run([lambda number=number: number for number in range(9)]) == list(range(9))


def test_tasks_run_at_the_same_time():
    together = threading.Barrier(2)
    assert len(Workers(2).run([lambda: together.wait(timeout=30)] * 2)) == 2


def test_the_default_is_one_thread_per_core_unless_the_environment_sets_it(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Workers().num_threads == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert Workers().num_threads >= 1


def test_the_error_of_a_task_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        Workers(2).run([lambda: 1, lambda: 1 / 0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.needs("fork")
def test_a_forked_process_has_its_own_workers(tiny_model):
    expected = tiny_model.embed("the cat sat").sum()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(tiny_model.embed("the cat sat").sum()))
    process.start()
    assert receiver.poll(60), "the forked process waits for threads that it does not have"
    assert receiver.recv() == pytest.approx(expected)
    process.join()


def test_a_model_uses_the_threads_it_was_given(tiny_model):
    model = Elmo(tiny_model.checkpoint(), num_threads=2)
    assert model.num_threads == 2
    assert abs(model.embed("the cat sat") - tiny_model.embed("the cat sat")).max() < 1e-6


@pytest.mark.parametrize("wrong", [0, -2, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(tiny_model, wrong):
    message = f"num_threads is {wrong!r}; it must be a whole number of threads, 1 or more."
    with pytest.raises(ConfigError, match="^" + re.escape(message) + "$"):
        Elmo(tiny_model.checkpoint(), num_threads=wrong)
