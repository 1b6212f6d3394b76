"""Run a transformers encoder in a separate process for inference.py: a folder, or BERT-base with random weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModel, BertConfig, BertModel
from word_pieces import Batch, WordPieces
from worker_loop import serve


def open_model(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    torch.set_num_threads(options["num_threads"])
    pieces = WordPieces(options["folder"], num_threads=options["num_threads"])
    model = BertModel(BertConfig()) if options["random"] else AutoModel.from_pretrained(options["folder"])
    model = model.to(getattr(torch, options["precision"])).eval()

    @torch.inference_mode()
    def run(batch: Batch) -> npt.NDArray[np.float32]:
        vectors = model(**{name: torch.from_numpy(ids) for name, ids in batch.items()}).last_hidden_state
        array: npt.NDArray[np.float32] = vectors.float().numpy()
        return array

    return pieces.methods(run)


if __name__ == "__main__":
    serve(open_model)
