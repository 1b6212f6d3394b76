"""AllenNLP's tensors: words -> character ids (B, T, 50), and such ids -> a batch of distinct words."""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.errors import InputError
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW, CharBatch
from elmo.text.characters import Alphabet, Utf8Alphabet
from elmo.text.sentence_input import read_word_lists

LITERAL_BOUNDARIES = ("<S>", "</S>")


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Give the character ids of sentences that are lists of words, (B, T, 50), zero where padded."""
    sentences = read_word_lists(batch)
    num_words = [len(words) for words in sentences]
    ids = encode_literally([word for words in sentences for word in words])
    width = max(num_words)
    return torch.stack([F.pad(rows, (0, 0, 0, width - len(rows))) for rows in torch.split(ids, num_words)])


def encode_literally(words: Sequence[str]) -> Tensor:
    """Give the ids of words, (U, 50); a boundary that is spelled out becomes one, as in the original."""
    alphabet = Utf8Alphabet()
    ids, boundaries = alphabet.encode(words), alphabet.boundaries()
    for number, word in enumerate(words):
        if word in LITERAL_BOUNDARIES:
            ids[number] = boundaries[LITERAL_BOUNDARIES.index(word)]
    return torch.from_numpy(ids)


def batch_of_characters(ids: Tensor, alphabet: Alphabet, num_characters: int) -> CharBatch:
    """Find the distinct words of (B, T, C) ids; a word of zeros is padding."""
    if ids.shape[-1] != alphabet.max_characters:
        raise InputError(
            f"inputs has {ids.shape[-1]} character ids a word, but this model reads {alphabet.max_characters}; "
            "make the ids with batch_to_ids."
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < num_characters:
        raise InputError(
            f"inputs has ids from {int(ids.min())} to {int(ids.max())}; character ids are 0 to "
            f"{num_characters - 1}, so make them with batch_to_ids."
        )
    mask = (ids > 0).any(dim=-1)
    distinct, which = torch.unique(ids[mask], dim=0, return_inverse=True)
    boundaries = torch.from_numpy(alphabet.boundaries()).to(ids.device)
    return _between_boundaries(mask, which, char_ids=torch.cat([boundaries, distinct]), word_ids=None)


def batch_of_words(ids: Tensor) -> CharBatch:
    """Find the distinct words of (B, T) ids; the id 0 is padding, and the boundaries come before it."""
    mask = ids > 0
    distinct, which = torch.unique(ids[mask], return_inverse=True)
    boundaries = torch.tensor([BEGIN_ROW, END_ROW], device=ids.device)
    word_ids = torch.cat([boundaries, distinct + FIRST_WORD_ROW])
    return _between_boundaries(mask, which, char_ids=None, word_ids=word_ids)


def _between_boundaries(
    mask: Tensor, which: Tensor, *, char_ids: Tensor | None, word_ids: Tensor | None
) -> CharBatch:
    num_rows, num_positions = mask.shape
    num_words = mask.sum(dim=1)
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        row = int((mask[:, 1:] & ~mask[:, :-1]).any(dim=1).nonzero()[0])
        raise InputError(f"Sentence {row} has padding before a word; padding may only follow the words.")
    word_index = mask.new_zeros((num_rows, num_positions + 2), dtype=torch.int64)
    word_index[:, 1:-1][mask] = which + FIRST_WORD_ROW
    word_index[:, 0] = BEGIN_ROW
    word_index[torch.arange(num_rows, device=mask.device), num_words + 1] = END_ROW
    # A row of padding alone still reads both boundaries, as in the original.
    return CharBatch(
        char_ids=char_ids,
        word_ids=word_ids,
        word_index=word_index,
        lengths=num_words.cpu() + 2,
        order=tuple(range(num_rows)),
    )
