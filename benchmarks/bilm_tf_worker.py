"""The baseline of pretrain.py, in its own environment: the training loop of simple_elmo, a few steps at a time.

It uses the protocol of the other workers (worker_loop.py). simple_elmo's loop requests the batches, so requests are
answered inside that loop. simple_elmo's graph, loop and batches are unchanged.
"""

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # compat.v1's LSTMCell needs Keras 2
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf
from simple_elmo import training
from simple_elmo.data import BidirectionalLMDataset, UnicodeCharsVocabulary

V1Session: Any = tf.compat.v1.Session


class TimedSteps:
    """The batches of a data set. Each request releases some of them; in between, the trainer waits."""

    def __init__(self, data: Any, losses: list[float], answers: TextIO) -> None:
        self._data, self._losses, self._answers = data, losses, answers
        self._start = time.perf_counter()

    def iter_batches(self, batch_size: int, num_steps: int) -> Iterator[dict[str, Any]]:
        batches = self._data.iter_batches(batch_size, num_steps)
        opening_seconds = time.perf_counter() - self._start
        self._answer({"seconds": opening_seconds, "described": {"tensorflow": tf.__version__}})
        for request in sys.stdin:
            self._losses.clear()
            start = time.perf_counter()
            for _ in range(json.loads(request)["arguments"]["num_updates"]):
                yield next(batches)
            # The trainer requests a batch only after the previous update.
            seconds = time.perf_counter() - start
            self._answer({"seconds": seconds, "result": {"seconds": seconds, "losses": self._losses}})

    def _answer(self, value: dict[str, Any]) -> None:
        self._answers.write(json.dumps(value) + "\n")
        self._answers.flush()


def session_class(losses: list[float], num_threads: int) -> type:
    """Return a Session class that records the perplexity of each update and limits the number of threads."""

    class WatchedSession(V1Session):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            config.intra_op_parallelism_threads = num_threads
            config.inter_op_parallelism_threads = num_threads
            super().__init__(config=config)

        def run(self, fetches: Any, **others: Any) -> Any:
            result = super().run(fetches, **others)
            if isinstance(result, list) and len(result) > 2:  # only an update fetches this many values
                losses.append(math.log(result[2]))
            return result

    return WatchedSession


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # simple_elmo prints its variables
    arguments = json.loads(sys.argv[1])
    tf.compat.v1.disable_v2_behavior()  # graphs, and variables that support `+=`, as in TensorFlow 1
    losses: list[float] = []
    tf.compat.v1.Session = session_class(losses, arguments["num_threads"])
    vocabulary = UnicodeCharsVocabulary(
        arguments["vocabulary"], arguments["options"]["char_cnn"]["max_characters_per_token"], validate_file=True
    )
    # Text read once ends in a StopIteration inside a generator, an error since Python 3.7; endless text does not.
    data = BidirectionalLMDataset(arguments["text"], vocabulary, test=False, shuffle_on_load=True)
    options = {**arguments["options"], "n_tokens_vocab": vocabulary.size}
    training.train(options, TimedSteps(data, losses, answers), 1, arguments["folder"], arguments["folder"])


if __name__ == "__main__":
    main()
