"""Run this project in a separate process for inference.py, also with elmo of older commits."""

from collections.abc import Callable
from typing import Any

import numpy as np
from worker_loop import Sentences, serve

import elmo
from elmo import Elmo
from elmo.heap import reuse_large_blocks


def open_model(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    reuse_large_blocks()  # as the commands do
    model = Elmo.from_pretrained(options["folder"], precision=options["precision"], num_threads=options["num_threads"])
    model.embed([["ready"]])

    def embed(sentences: Sentences, batch_size: int) -> float:
        """Embed sentences one at a time if the batch size is 1, otherwise all at once."""
        if batch_size == 1:
            for words in sentences:
                model.embed([words])
        else:
            for _ in model.embed_iter(sentences):
                pass
        return model.cache_info().hit_rate

    def save_layers(sentences: Sentences, path: str) -> None:
        np.savez(path, *model.embed(sentences, layers="all"))

    def describe() -> dict[str, str]:
        return {"package": elmo.__file__, "precision": model.precision}

    return {"embed": embed, "save_layers": save_layers, "describe": describe, "prepare": model.clear_cache}


if __name__ == "__main__":
    serve(open_model)
