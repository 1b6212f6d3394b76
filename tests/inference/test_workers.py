"""The threads that share the cores: how many, what they leave alone, and what happens in other processes."""

import multiprocessing
import re
import sys
import threading

import pytest
import torch

from elmo import Elmo
from elmo.errors import ConfigError
from elmo.inference.workers import Workers


def threads_of_torch():
    return torch.get_num_threads()


@pytest.mark.parametrize(("num_threads", "of_each"), [(1, [1]), (2, [1, 1]), (3, [1, 1]), (8, [4, 4])])
def test_workers_share_the_threads(num_threads, of_each):
    workers = Workers(num_threads)
    together = threading.Barrier(len(of_each))  # so that no worker does both tasks

    def tell():
        together.wait(timeout=30)
        return threads_of_torch()

    assert workers.run([tell for _ in of_each]) == of_each


def test_other_threads_keep_the_number_they_have():
    before, started = torch.get_num_threads(), []
    Workers(6).run([threads_of_torch, threads_of_torch])
    later = threading.Thread(target=lambda: started.append(threads_of_torch()))
    later.start()
    later.join()
    assert torch.get_num_threads() == before
    assert started == [before]


def test_results_come_in_the_order_of_the_tasks_and_without_gradients():
    workers = Workers(2)
    assert workers.run([lambda number=number: number for number in range(9)]) == list(range(9))
    assert workers.run([torch.is_inference_mode_enabled]) == [True]


def test_the_error_of_a_task_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        Workers(2).run([lambda: 1, lambda: 1 / 0])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_workers_of_its_own(tiny_model):
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
    assert Elmo(tiny_model.checkpoint()).num_threads == torch.get_num_threads()


@pytest.mark.parametrize("wrong", [0, -2, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(tiny_model, wrong):
    message = f"num_threads is {wrong!r}; it must be a whole number of threads, 1 or more."
    with pytest.raises(ConfigError, match="^" + re.escape(message) + "$"):
        Elmo(tiny_model.checkpoint(), num_threads=wrong)
