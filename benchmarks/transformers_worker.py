"""An encoder of transformers, in a process of its own, for inference.py: a folder, or BERT-base at random."""

from collections.abc import Callable
from typing import Any

import torch
from answering import Sentences, cut, serve
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel


def open_model(order: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    torch.set_num_threads(order["num_threads"])
    tokenizer = AutoTokenizer.from_pretrained(order["folder"])
    model = BertModel(BertConfig()) if order["random"] else AutoModel.from_pretrained(order["folder"])
    model = model.to(getattr(torch, order["precision"])).eval()

    @torch.inference_mode()
    def embed(sentences: Sentences, batch_size: int) -> None:
        for batch in cut(sentences, batch_size):
            ids = tokenizer(
                batch, is_split_into_words=True, padding=True, truncation=True, max_length=512, return_tensors="pt"
            )
            model(**ids).last_hidden_state.float().numpy()

    return {"embed": embed}


if __name__ == "__main__":
    serve(open_model)
