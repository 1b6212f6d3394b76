"""x: words -> vectors without context, from a file, learned, or from their characters."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.tasks.settings import WordSettings
from elmo.text.word_vectors import read_word_vectors

PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
MAX_CHARACTERS = 30
NUM_BYTES = 256
Vectors = dict[str, npt.NDArray[np.float32]]


class WordList:
    """Words with ids; a word that is missing is looked up in lower case, then becomes the unknown word."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = tuple(words)
        self._ids = {word: number + FIRST_WORD for number, word in enumerate(words)}

    def __len__(self) -> int:
        return len(self.words) + FIRST_WORD

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word."""
        known = self._ids
        return [known.get(word) or known.get(word.lower()) or UNKNOWN for word in words]


@dataclass(frozen=True)
class Vocabularies:
    """The words with learned and with pretrained vectors; `pretrained_dim` is 0 if there are none."""

    learned: WordList
    pretrained: WordList
    pretrained_dim: int


def choose_words(sentences: Iterable[Sequence[str]], *, min_count: int) -> WordList:
    """Return the words that are frequent enough for a learned vector."""
    counts = Counter(word for words in sentences for word in words)
    return WordList(sorted(word for word, count in counts.items() if count >= min_count))


def read_pretrained(
    path: Path, sentences: Iterable[Sequence[str]], *, num_kept: int
) -> tuple[WordList, npt.NDArray[np.float32]]:
    """Return the vectors of the data's words and of the file's first ones, after rows for padding and unknown.

    The file is text as GloVe or word2vec write it, or word2vec's .bin, which gensim reads if it is installed.
    """
    wanted = {word for words in sentences for word in words}
    wanted |= {word.lower() for word in wanted}
    found = _read_binary(path, wanted, num_kept) if path.suffix == ".bin" else _read_text(path, wanted, num_kept)
    words = sorted(found)
    vectors = np.stack([found[word] for word in words])
    unknown = vectors.mean(axis=0)
    return WordList(words), np.concatenate([np.zeros_like(unknown)[None], unknown[None], vectors])


def _read_text(path: Path, wanted: set[str], num_kept: int) -> Vectors:
    dim = 0
    first: list[str] = []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                pieces = line.rstrip().split(" ")
                if not first and len(pieces) == 2 and all(piece.isdigit() for piece in pieces):
                    continue  # word2vec's two counts
                dim = dim or len(pieces) - 1
                if len(first) >= num_kept:
                    break
                first.append(" ".join(pieces[:-dim]) if dim else line.strip())
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}.") from error
    if dim < 1:
        raise InputError(f"{path} is not a file of word vectors; a word and its numbers per line were expected.")
    return read_word_vectors(path, wanted.union(first), dim)


def _read_binary(path: Path, wanted: set[str], num_kept: int) -> Vectors:
    try:
        from gensim.models import KeyedVectors
    except ImportError as error:
        raise InputError(
            f"{path} is a binary file of word vectors, which gensim reads; install gensim or give a text file."
        ) from error
    try:
        vectors = KeyedVectors.load_word2vec_format(str(path), binary=True)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} could not be read as word2vec's binary format: {error}.") from error
    keys = [key for number, key in enumerate(vectors.index_to_key) if number < num_kept or key in wanted]
    return {key: np.asarray(vectors[key], dtype=np.float32) for key in keys}


@dataclass(frozen=True)
class Characters:
    """The characters of a batch: those of the distinct words (U, C), and which word is where (B, T)."""

    distinct: Tensor
    where: Tensor


class WordFeatures(nn.Module):
    """Ids of words (B, T), or their characters, -> x (B, T, dim): the vectors of all kinds side by side."""

    def __init__(self, settings: WordSettings, *, num_learned: int, pretrained: Tensor | None) -> None:
        """`pretrained`: one row per word, as read_pretrained returns them."""
        super().__init__()
        self.learned = nn.Embedding(num_learned, settings.dim, padding_idx=PADDING) if num_learned else None
        self.pretrained: nn.Embedding | None = None
        if pretrained is not None:
            self.pretrained = nn.Embedding(pretrained.shape[0], pretrained.shape[1], padding_idx=PADDING)
            self.pretrained.weight.data.copy_(pretrained)
            self.pretrained.requires_grad_(settings.tune)
        self.characters = CharacterCnn(settings.character_filters) if "characters" in settings.kinds else None
        self.dim = (
            (settings.dim if self.learned is not None else 0)
            + (0 if pretrained is None else pretrained.shape[1])
            + (settings.character_filters if self.characters is not None else 0)
        )

    def forward(self, learned_ids: Tensor, pretrained_ids: Tensor, characters: Characters | None) -> Tensor:
        """Look up or compute each kind of vector."""
        parts = []
        if self.learned is not None:
            parts.append(self.learned(learned_ids))
        if self.pretrained is not None:
            parts.append(self.pretrained(pretrained_ids))
        if self.characters is not None and characters is not None:
            parts.append(self.characters(characters))
        return torch.cat(parts, dim=-1) if parts else learned_ids.new_zeros(*learned_ids.shape, 0).float()


class CharacterCnn(nn.Module):
    """A word as the maxima of filters over its UTF-8 bytes."""

    def __init__(self, num_filters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_BYTES + 1, 16, padding_idx=0)
        self.filters = nn.Conv1d(16, num_filters, kernel_size=3, padding=1)

    def forward(self, characters: Characters) -> Tensor:
        """Return the vectors (B, T, num_filters)."""
        features = self.filters(self.embedding(characters.distinct).transpose(1, 2)).amax(dim=2).tanh()
        return F.embedding(characters.where, features)


def spell(sentences: Sequence[Sequence[str]], length: int) -> Characters:
    """Spell each distinct word once; sentences are padded to `length` with the empty word.

    A word is its bytes plus 1 with at least two zeros behind them, so that a filter of three bytes sees nothing
    but zeros somewhere in every word, whatever the longest one is.
    """
    numbers = {"": 0}
    rows = [
        [numbers.setdefault(word, len(numbers)) for word in words] + [0] * (length - len(words))
        for words in sentences
    ]
    contents = [word.encode("utf-8", "surrogatepass")[:MAX_CHARACTERS] for word in numbers]
    ids = np.zeros((len(contents), max(map(len, contents)) + 2), dtype=np.int64)
    for row, encoded in zip(ids, contents, strict=True):
        row[: len(encoded)] = np.frombuffer(encoded, dtype=np.uint8)
        row[: len(encoded)] += 1
    return Characters(torch.from_numpy(ids), torch.tensor(rows, dtype=torch.int64))
