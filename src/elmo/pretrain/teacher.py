"""Sentences of words -> one vector a word, by an encoder of the Hugging Face kind (extra `distill`).

Words are cut into the encoder's pieces where they can be made ahead (`cut`), its network runs where it is called.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.errors import ConfigError
from elmo.pretrain.teacher_loading import load_encoder

PIECES_AT_ONCE = 512  # more do not fit the caches of a CPU and take longer


@dataclass(frozen=True)
class PieceBatch:
    """Sentences of about one length; `word` is -1 where a piece belongs to none."""

    ids: Tensor  # (b, t)
    mask: Tensor  # (b, t): 1 at pieces
    word: Tensor  # (b, t): which of the words that have pieces


@dataclass(frozen=True)
class Pieces:
    """Some sentences, ready for the encoder."""

    batches: tuple[PieceBatch, ...]
    words: Tensor  # (N,): which of all words, counted through the sentences, have pieces; sorted


class Teacher:
    """An encoder that only answers: nothing of it is trained."""

    def __init__(
        self, name: str, *, precision: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        """Raises ConfigError if transformers is missing or `name` is no encoder whose words can be told apart."""
        self.name, self._precision, self._device = name, precision, torch.device(device)
        self._network, self._tokenizer, self._max_pieces = load_encoder(name)
        self._network = self._network.to(self._device)
        self._lock = threading.Lock()  # a tokenizer is used by one thread at a time
        self._check()

    def cut(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Cut words into pieces and pack sentences of like length; what the encoder cannot hold is left out."""
        if not any(sentences):
            return Pieces((), torch.empty(0, dtype=torch.long))
        with self._lock:
            made = self._tokenizer(
                [list(words) for words in sentences],
                is_split_into_words=True,
                truncation=True,
                max_length=self._max_pieces,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
        rows: list[tuple[list[int], list[int]]] = []  # of each sentence: ids of its pieces, and their words
        first = 0
        for number, words in enumerate(sentences):
            places = [-1 if place is None else first + place for place in made.word_ids(number)]
            rows.append((made["input_ids"][number], places))
            first += len(words)
        with_pieces = sorted({place for _, places in rows for place in places if place >= 0})
        rank = {place: number for number, place in enumerate(with_pieces)} | {-1: -1}
        rows = [(ids, [rank[place] for place in places]) for ids, places in rows]
        rows.sort(key=lambda row: len(row[0]))
        batches = []
        while rows:
            size = 1
            while size < len(rows) and (size + 1) * len(rows[size][0]) <= PIECES_AT_ONCE:
                size += 1
            batches.append(_pad(rows[:size]))
            rows = rows[size:]
        return Pieces(tuple(batches), torch.tensor(with_pieces, dtype=torch.long))

    def vectors(self, pieces: Pieces) -> Tensor:
        """Give the vectors (N, teacher's dimension) of the words that have pieces, each of length 1."""
        found = torch.zeros(len(pieces.words), self.dim, device=self._device)
        for batch in pieces.batches:
            hidden = self._run(batch)
            own = (batch.word >= 0).to(self._device)
            # A sum has the direction of the mean.
            found.index_add_(0, batch.word.to(self._device)[own], hidden[own])
        return F.normalize(found, dim=1)

    def _run(self, batch: PieceBatch) -> Tensor:
        mixed = self._precision != torch.float32
        with torch.no_grad(), torch.autocast(self._device.type, self._precision, enabled=mixed):
            answer = self._network(
                input_ids=batch.ids.to(self._device), attention_mask=batch.mask.to(self._device)
            )
        hidden: Any = getattr(answer, "last_hidden_state", None)
        if not isinstance(hidden, Tensor) or hidden.dim() != 3:
            raise ConfigError(f"The teacher {self.name} gives no vector a piece of a text; choose an encoder.")
        return hidden.float()

    def _check(self) -> None:
        """See that words are found again and that their vectors know what follows."""
        sentences = [["the", "river"], ["the", "river", "and", "all", "that", "follows"]]
        pieces = self.cut(sentences)
        self.dim = self._run(pieces.batches[0]).shape[2] if pieces.batches else 0
        if len(pieces.words) != sum(map(len, sentences)):
            raise ConfigError(
                f"The tokenizer of the teacher {self.name} does not say which word a piece is of; choose an "
                "encoder whose fast tokenizer does."
            )
        alone, followed = self.vectors(pieces)[[0, 2]]
        if torch.linalg.vector_norm(alone - followed) < 1e-4:
            raise ConfigError(
                f"The teacher {self.name} reads from left to right only: its vectors do not know the words that "
                "follow; choose an encoder, such as one of BERT's kind."
            )


def _pad(rows: Sequence[tuple[list[int], list[int]]]) -> PieceBatch:
    size = max(len(ids) for ids, _ in rows)
    ids, mask = torch.zeros(2, len(rows), size, dtype=torch.long)
    word = torch.full_like(ids, -1)
    for number, (own, words) in enumerate(rows):
        ids[number, : len(own)] = torch.tensor(own)
        mask[number, : len(own)] = 1
        word[number, : len(own)] = torch.tensor(words)
    return PieceBatch(ids, mask, word)
