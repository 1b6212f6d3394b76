"""Run simple_elmo on TensorFlow in its own process and environment for inference.py."""

import os
from collections.abc import Callable
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # compat.v1's LSTMCell needs Keras 2
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf
from simple_elmo import ElmoModel
from simple_elmo.elmo import weight_layers
from worker_loop import Sentences, cut, serve


def open_model(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    model = ElmoModel()
    model.load(options["folder"], max_batch_size=options["batch_size"])
    threads = options["num_threads"]
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    # One session for all calls; otherwise each call would build the graph again.
    session = tf.compat.v1.Session(config=config)
    with session.as_default():
        model.elmo_sentence_input = weight_layers("input", model.sentence_embeddings_op, use_layers="average")
        session.run(tf.compat.v1.global_variables_initializer())

    def embed(sentences: Sentences, batch_size: int) -> None:
        for batch in cut(sentences, batch_size):
            model.get_elmo_vectors(batch, warmup=False, session=session)

    return {"embed": embed}


if __name__ == "__main__":
    serve(open_model)
