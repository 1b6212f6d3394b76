"""Run model2vec's static vectors in a separate process for inference.py: MiniLM's word pieces, random vectors.

The values of the vectors do not affect lookup time. Sentences are passed as text, as its users do.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model2vec import StaticModel
from tokenizers import Tokenizer
from worker_loop import Sentences, cut, serve

DIM = 256  # of its potion-base models


def open_model(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    torch.set_num_threads(options["num_threads"])
    tokenizer = Tokenizer.from_file(str(Path(options["folder"]) / "tokenizer.json"))
    tokenizer.no_padding()
    random = np.random.default_rng(0)
    vectors = random.standard_normal((tokenizer.get_vocab_size(), DIM), dtype=np.float32)
    model = StaticModel(vectors, tokenizer)

    def embed(sentences: Sentences, batch_size: int) -> None:
        for batch in cut(sentences, batch_size):
            model.encode_as_sequence([" ".join(words) for words in batch])

    return {"embed": embed}


if __name__ == "__main__":
    serve(open_model)
