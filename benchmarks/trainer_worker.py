"""Run our trainer without checkpoints and metrics in a separate process for pretrain.py.

It also runs with older commits of elmo, so it only uses what they provide.
"""

import contextlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from worker_loop import serve

import elmo
from elmo.corpus.prepared import PreparedCorpus
from elmo.heap import reuse_large_blocks
from elmo.pretrain.distributed import Processes
from elmo.pretrain.loop import train_step
from elmo.pretrain.run import Run
from elmo.pretrain.settings import read_settings


def open_trainer(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    reuse_large_blocks()  # as `elmo train` does
    torch.set_num_threads(options["num_threads"])
    settings = read_settings(preset=options["preset"], changes=options["changes"])
    corpus = PreparedCorpus.open(Path(options["corpus"]))
    run = Run(Path(), corpus, settings, validation=[], processes=Processes())
    run.state.objective.train()
    num_words = len(corpus.vocabulary)

    def train(num_updates: int) -> dict[str, Any]:
        """Run updates; return their seconds and the loss per word of each."""
        losses = []
        start = time.perf_counter()
        # Batches are prepared in a thread, which ends here: none is prepared while another trainer is measured.
        with contextlib.closing(run._read_batches()) as batches:
            for _ in range(num_updates):
                report = train_step(run.state, batches, settings, num_updates=run.num_updates, num_words=num_words)
                losses.append((report.left_to_right_loss + report.right_to_left_loss) / 2)
            seconds = time.perf_counter() - start
        return {"seconds": seconds, "losses": losses}

    def mean_distinct_words(num_windows: int) -> float:
        """Return the mean number of words per window that the character network encodes."""
        counts, batches = [], run._read_batches()
        for _ in range(num_windows):
            char_ids = next(batches)[0].char_ids
            assert char_ids is not None
            counts.append(len(char_ids))
        return statistics.mean(counts)

    return {
        "train": train,
        "mean_distinct_words": mean_distinct_words,
        "describe": lambda: {"package": elmo.__file__},
    }


if __name__ == "__main__":
    serve(open_trainer)
