"""Sentences of words -> one vector per word, by a Hugging Face encoder (extra `distill`).

`cut` splits words into the encoder's pieces and can run ahead in another thread; `vectors` runs the network.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.hub import fetch_from_hub
from elmo.errors import ConfigError, first_line

MAX_PIECES = 512  # in one sentence
PIECES_AT_ONCE = 512  # in one batch; larger ones do not fit the caches of a CPU and take longer
# The other files of a repository hold the same weights for other libraries.
FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
OLD_WEIGHTS = "pytorch_model*.bin"


@dataclass(frozen=True)
class PieceBatch:
    """Sentences of similar length; `word` is -1 where a piece belongs to no word."""

    ids: Tensor  # (b, t)
    mask: Tensor  # (b, t): 1 at pieces
    word: Tensor  # (b, t): which of the words that have pieces


@dataclass(frozen=True)
class Pieces:
    """Some sentences, ready for the encoder."""

    batches: tuple[PieceBatch, ...]
    words: Tensor  # (N,): which of all words, counted through the sentences, have pieces; sorted


class Teacher:
    """A frozen encoder."""

    def __init__(
        self, name: str, *, precision: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        """Raise ConfigError if transformers is missing or `name` is not an encoder with word boundaries."""
        self.name, self._precision, self._device = name, precision, torch.device(device)
        self._network, self._tokenizer, self._max_pieces = _load_encoder(name)
        self._network = self._network.to(self._device)
        self._lock = threading.Lock()  # tokenizers are not thread-safe
        self._check()

    def cut(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Cut words into pieces, batch sentences of similar length; what the encoder cannot hold is left out."""
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
        rows: list[tuple[list[int], list[int]]] = []  # per sentence: ids of its pieces, and their words
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
        """Return the vectors (N, teacher's dimension) of the words that have pieces, each of length 1."""
        found = torch.zeros(len(pieces.words), self.dim, device=self._device)
        for batch in pieces.batches:
            hidden = self._run(batch)
            own = (batch.word >= 0).to(self._device)
            # The sum has the direction of the mean.
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
            raise ConfigError(f"The teacher {self.name} returns no vectors per piece; choose an encoder.")
        return hidden.float()

    def _check(self) -> None:
        """Raise ConfigError unless words can be found in the pieces and their vectors depend on what follows."""
        sentences = [["the", "river"], ["the", "river", "and", "all", "that", "follows"]]
        pieces = self.cut(sentences)
        self.dim = self._run(pieces.batches[0]).shape[2] if pieces.batches else 0
        if len(pieces.words) != sum(map(len, sentences)):
            raise ConfigError(
                f"The tokenizer of the teacher {self.name} does not report which word a piece belongs to; choose "
                "an encoder whose fast tokenizer does."
            )
        alone, followed = self.vectors(pieces)[[0, 2]]
        if torch.linalg.vector_norm(alone - followed) < 1e-4:
            raise ConfigError(
                f"The teacher {self.name} reads from left to right only: its vectors do not depend on the words "
                "that follow; choose an encoder, such as BERT."
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


def _load_encoder(name: str) -> tuple[nn.Module, Any, int]:
    """Return the network, its fast tokenizer and how many pieces it reads at once."""
    try:
        import transformers
    except ImportError as error:
        raise ConfigError("A teacher needs transformers: pip install 'modern-elmo[distill]'.") from error
    folder = _find_folder(name)
    try:
        with _quiet(transformers):
            # RoBERTa's tokenizers accept single words only with add_prefix_space.
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, add_prefix_space=True)
            network, report = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    except Exception as error:  # the library raises errors of every kind; each means that there is no teacher
        raise ConfigError(
            f"The teacher {name} could not be opened ({first_line(error).rstrip('.:')}); give an encoder that "
            "transformers' AutoModel and AutoTokenizer open."
        ) from error
    missing = [key for key in report["missing_keys"] if "pooler" not in key]
    if missing:
        raise ConfigError(
            f"The teacher {name} has no weights for {', '.join(sorted(missing)[:3])} ({len(missing)} in all); its "
            "files do not belong to one model."
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"The teacher {name} has a slow tokenizer ({type(tokenizer).__name__}), which does not report which "
            "word a piece belongs to; choose an encoder with a fast one (tokenizer.json)."
        )
    if network.config.is_encoder_decoder:
        network = network.get_encoder()
    config: Any = network.config
    positions = getattr(config, "max_position_embeddings", None) or MAX_PIECES
    # RoBERTa counts positions from the one after padding's.
    max_pieces = min(MAX_PIECES, int(positions) - 2, int(tokenizer.model_max_length))
    return network.eval().requires_grad_(False), tokenizer, max_pieces


def _find_folder(name: str) -> Path:
    folder = Path(name)
    if not folder.is_dir():
        folder = fetch_from_hub(name, files=FILES)
        if not list(folder.glob("*.safetensors")):
            folder = fetch_from_hub(name, files=(*FILES, OLD_WEIGHTS))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"The teacher {name} has no config.json; give the folder or the name of a Hugging Face encoder."
        )
    return folder


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep the library's progress bars and advice off the screen."""
    logging = transformers.utils.logging
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
