"""Run flair's contextual string embeddings with random weights in a separate process for inference.py.

Two character language models with 2,048 cells, left to right and right to left, as in flair's English models.
"""

from collections.abc import Callable
from typing import Any

import torch
from flair.data import Dictionary, Sentence
from flair.embeddings import FlairEmbeddings, StackedEmbeddings
from flair.models import LanguageModel
from worker_loop import Sentences, cut, serve

NUM_CELLS = 2048


def open_model(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    torch.set_num_threads(options["num_threads"])
    characters = Dictionary(add_unk=True)
    for code in range(32, 382):
        characters.add_item(chr(code))
    models = [
        LanguageModel(characters, is_forward_lm=forward, hidden_size=NUM_CELLS, nlayers=1).eval()
        for forward in (True, False)
    ]
    embeddings = StackedEmbeddings([FlairEmbeddings(model) for model in models])

    def embed(sentences: Sentences, batch_size: int) -> None:
        for batch in cut(sentences, batch_size):
            embeddings.embed([Sentence(words) for words in batch])

    return {"embed": embed}


if __name__ == "__main__":
    serve(open_model)
