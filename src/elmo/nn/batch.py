"""Batches for torch modules: a biLM over a batch, and padded ids as other libraries pass them."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.nn.bilm import BiLM, BiLMState, LayerStates
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW, CharBatch, Indexer, Key, TokenIds, WordGroups

# The convolutions of this many words at once take about 200 MB in the largest official model.
WORDS_AT_ONCE = 1024


def encode_tokens(bilm: BiLM, ids: TokenIds) -> Tensor:
    """Return the context-free vectors (U, D) of tokens."""
    device = next(bilm.parameters()).device
    characters, words = (None if array is None else torch.from_numpy(array).to(device) for array in ids)
    num_tokens = len(next(array for array in ids if array is not None))
    windows = [slice(start, start + WORDS_AT_ONCE) for start in range(0, num_tokens, WORDS_AT_ONCE)]
    return torch.cat(
        [
            bilm.tokens(None if characters is None else characters[rows], None if words is None else words[rows])
            for rows in windows
        ]
    )


def run_bilm(bilm: BiLM, batch: CharBatch, state: BiLMState | None = None) -> tuple[LayerStates, BiLMState]:
    """Return all layers of a batch, boundaries included, and the state after it; start from `state` or from zero."""
    words = encode_tokens(bilm, batch.look_up(batch.keys))
    index = torch.from_numpy(batch.word_index).to(words.device)
    layers, end = bilm(words[index], torch.from_numpy(batch.lengths), state)
    if batch.groups is not None:
        rows = _average(batch.groups, layers.layers.permute(1, 2, 0, 3)[layers.mask])
        mask = torch.from_numpy(batch.word_mask).to(rows.device)
        padded = rows.new_zeros(*mask.shape, *rows.shape[1:])
        padded[mask] = rows
        layers = LayerStates(padded.permute(2, 0, 1, 3), mask)
    return layers, end


def _average(groups: WordGroups, rows: Tensor) -> Tensor:
    """Return the mean of each word's rows, with gradients: (tokens, ...) -> (N, ...)."""
    counts = torch.from_numpy(groups.num_tokens).to(rows.device)
    owners = torch.repeat_interleave(torch.arange(len(counts), device=rows.device), counts)
    sums = rows.new_zeros(len(counts), *rows.shape[1:]).index_add(0, owners, rows)
    return sums / counts.view(-1, *[1] * (rows.ndim - 1)).to(rows.dtype)


def pad_sentences(indexer: Indexer, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` (B, T), words only, zero where padded.

    `input_ids` are character ids (B, T, C), or word ids (B, T) for a model without characters. If a model has both
    inputs, its word ids are in `word_input_ids`.
    """
    batch = indexer.batch(sentences)
    mask, word_index = batch.mask[:, 2:], batch.word_index[:, 1:-1]
    characters, words = indexer.look_up(batch.keys)
    arrays = {"attention_mask": mask.astype(np.int64)}
    if words is not None:
        arrays["word_input_ids" if characters is not None else "input_ids"] = words[word_index] * mask
    if characters is not None:
        arrays["input_ids"] = characters[word_index] * mask[..., None]
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def unpad_sentences(
    boundaries: TokenIds, input_ids: Tensor, attention_mask: Tensor, word_input_ids: Tensor | None = None
) -> CharBatch:
    """Return the batch of padded sentences, each distinct token once; the inverse of pad_sentences.

    `boundaries` are the ids of the begin and the end of a sentence. A key of the batch is the bytes of a token's ids.
    """
    mask = attention_mask.cpu().numpy().astype(bool)
    num_sentences, num_steps = mask.shape
    lengths = mask.sum(axis=1)
    if not np.array_equal(mask, np.arange(num_steps) < lengths[:, None]):
        raise InputError("A sentence has padding before a word; pad sentences on the right, as the tokenizer does.")
    rows = _join_columns(ids.cpu().numpy()[mask] for ids in (input_ids, word_input_ids) if ids is not None)
    ends = _join_columns(ids for ids in boundaries if ids is not None)
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True) if len(rows) else (rows, np.zeros(0, dtype=int))
    word_index = np.full((num_sentences, num_steps + 2), BEGIN_ROW, dtype=np.int64)
    word_index[:, 1:-1][mask] = inverse.reshape(-1) + FIRST_WORD_ROW
    word_index[np.arange(num_sentences), lengths + 1] = END_ROW

    def look_up(keys: Sequence[Key]) -> TokenIds:
        content = b"".join(key for key in keys if isinstance(key, bytes))
        ids = np.frombuffer(content, dtype=np.int64).reshape(len(keys), -1)
        characters = words = None
        if boundaries.characters is not None:
            characters = ids[:, : boundaries.characters.shape[1]].copy()
        if boundaries.words is not None:
            words = ids[:, -1].copy()
        return TokenIds(characters, words)

    keys = [row.tobytes() for row in np.concatenate([ends, distinct])]
    return CharBatch(keys, look_up, word_index, lengths.astype(np.int64) + 2, tuple(range(num_sentences)))


def _join_columns(arrays: Iterable[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([array if array.ndim == 2 else array[:, None] for array in arrays], axis=1)
