"""The building blocks of task networks: word vectors without context, sequence encoders with ELMo, pooling, attention.

Words -> x (pretrained, learned, or computed from characters) -> [x; ELMo] -> sequence encoder -> h, or [h; ELMo].
Masks (B, T) are True for real words; padded positions are zero and have no effect. [a; b] means concatenation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.fusion.word_vectors import open_word_vectors, read_word_vectors
from elmo.layer import ElmoLayer, LayerMixes
from elmo.tasks.examples import Words
from elmo.tasks.settings import NetworkSettings, TaskSettings, WordSettings

PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
MAX_BYTES_PER_WORD, NUM_CHARACTER_FILTERS = 30, 50
NUM_BYTES = 256
ReadLayers = Callable[[Words], npt.NDArray[np.float16]]  # -> layers and context vectors, (T or 1, num_values)
MASKED_SCORE = -1e9


class WordList:
    """A vocabulary; a word that is not in it is looked up in lower case, then replaced by the unknown word."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = tuple(words)
        self._ids = {word: number + FIRST_WORD for number, word in enumerate(words)}

    def __len__(self) -> int:
        return len(self.words) + FIRST_WORD

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word."""
        known = self._ids
        return [known.get(word) or known.get(word.lower()) or UNKNOWN for word in words]

    def known_indices(self, words: Iterable[str]) -> Iterator[int]:
        """Yield the index, from 0, of each word that is in the list with exactly this spelling."""
        return (self._ids[word] - FIRST_WORD for word in words if word in self._ids)


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of the learned and the pretrained embeddings."""

    learned: WordList
    pretrained: WordList


def build_vocabulary(sentences: Iterable[Sequence[str]], *, min_count: int) -> WordList:
    """Return the words that occur at least `min_count` times."""
    counts = Counter(word for words in sentences for word in words)
    return WordList(sorted(word for word, count in counts.items() if count >= min_count))


def read_pretrained(
    path: Path, sentences: Iterable[Sequence[str]], *, num_kept: int
) -> tuple[WordList, npt.NDArray[np.float32]]:
    """Return the vocabulary (words of the data plus the first `num_kept` of the file) and the embedding matrix.

    Rows 0 and 1 are for padding and unknown words. The file is text in the format of GloVe or word2vec.
    """
    selected = {spelling for words in sentences for word in words for spelling in (word, word.lower())}
    with open_word_vectors(path) as file:
        # A few GloVe entries contain spaces; they are kept only if they occur in the data.
        selected.update(line.split(b" ", 1)[0].decode("utf-8", "replace") for line in islice(file, num_kept))
    by_word = read_word_vectors(path, selected)
    vectors = np.stack([by_word[word] for word in sorted(by_word)])
    unknown = vectors.mean(axis=0)
    return WordList(sorted(by_word)), np.concatenate([np.zeros_like(unknown)[None], unknown[None], vectors])


class WordFeatures(nn.Module):
    """Concatenates the learned, pretrained and character-based vectors of words: x (B, T, dim)."""

    def __init__(self, settings: WordSettings, words: Vocabularies, pretrained: Tensor | None) -> None:
        """`pretrained`: one row per word, as read_pretrained returns them."""
        super().__init__()
        self._words = words
        self.learned: nn.Embedding | None = None
        if words.learned.words:
            self.learned = nn.Embedding(len(words.learned), settings.dim, padding_idx=PADDING)
        self.pretrained: nn.Embedding | None = None
        if pretrained is not None:
            self.pretrained = nn.Embedding(len(pretrained), pretrained.shape[1], padding_idx=PADDING)
            self.pretrained.weight.data.copy_(pretrained)
            self.pretrained.requires_grad_(False)
        self.characters = CharacterCnn(NUM_CHARACTER_FILTERS) if "characters" in settings.kinds else None
        embeddings = [table for table in (self.learned, self.pretrained) if table is not None]
        self.dim = sum(table.embedding_dim for table in embeddings)
        self.dim += 0 if self.characters is None else NUM_CHARACTER_FILTERS

    def forward(self, sentences: Sequence[Words], length: int) -> Tensor:
        """Look up or compute each kind of vector of sentences padded to `length`."""
        vectors = []
        if self.learned is not None:
            vectors.append(self.learned(_pad([self._words.learned.ids(words) for words in sentences], length)))
        if self.pretrained is not None:
            vectors.append(self.pretrained(_pad([self._words.pretrained.ids(words) for words in sentences], length)))
        if self.characters is not None:
            vectors.append(self.characters(sentences, length))
        return torch.cat(vectors, dim=-1) if vectors else torch.zeros(len(sentences), length, 0)


class CharacterCnn(nn.Module):
    """A convolution over the UTF-8 bytes of each word, followed by max pooling."""

    def __init__(self, num_filters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_BYTES + 1, 16, padding_idx=0)
        self.filters = nn.Conv1d(16, num_filters, kernel_size=3, padding=1)

    def forward(self, sentences: Sequence[Sequence[str]], length: int) -> Tensor:
        """Return the vectors (B, T, num_filters) of sentences padded to `length` with the empty word.

        Each distinct word is encoded once: its bytes plus 1, followed by at least two zeros. Every word thus has a
        window of three zeros, so its maxima do not depend on the longest word in the batch.
        """
        numbers = {"": 0}
        rows = [[numbers.setdefault(word, len(numbers)) for word in words] for words in sentences]
        contents = [word.encode("utf-8", "surrogatepass")[:MAX_BYTES_PER_WORD] for word in numbers]
        ids = _pad([[byte + 1 for byte in content] for content in contents], max(map(len, contents)) + 2)
        features = self.filters(self.embedding(ids).transpose(1, 2)).amax(dim=2).tanh()
        return F.embedding(_pad(rows, length), features)


def build_sequence_encoder(settings: NetworkSettings, input_dim: int) -> nn.Module:
    """Build the sequence encoder described by `settings`: vectors (B, T, D) and their mask -> h (B, T, dim)."""
    if settings.kind == "bilstm":
        return _BiLstm(input_dim, settings.dim, settings.num_layers)
    if settings.kind == "cnn":
        return _Cnn(input_dim, settings.dim, settings.num_layers, settings.width)
    return _Linear(input_dim, settings.dim)


class _BiLstm(nn.Module):
    """LSTMs in both directions, half of `dim` each."""

    def __init__(self, input_dim: int, dim: int, num_layers: int) -> None:
        super().__init__()
        sizes = [input_dim, *[dim] * (num_layers - 1)]
        self.left_to_right = nn.ModuleList(nn.LSTM(size, dim // 2, batch_first=True) for size in sizes)
        self.right_to_left = nn.ModuleList(nn.LSTM(size, dim // 2, batch_first=True) for size in sizes)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        # Each row is reversed within its length, so that padding comes last in both directions and changes
        # nothing. Packed sequences would do the same, but on a CPU their backward pass is up to five times slower.
        lengths, steps = mask.sum(dim=1, keepdim=True), torch.arange(mask.shape[1], device=mask.device)
        reversed_steps = torch.where(mask, lengths - 1 - steps, steps)[..., None]
        states = inputs
        for left_to_right, right_to_left in zip(self.left_to_right, self.right_to_left, strict=True):
            reversed_states, _ = right_to_left(states.gather(1, reversed_steps.expand_as(states)))
            restored = reversed_states.gather(1, reversed_steps.expand_as(reversed_states))
            states = torch.cat([left_to_right(states)[0], restored], dim=-1) * mask[..., None]
        return states


class _Cnn(nn.Module):
    """Convolutions over `width` words, with residual connections."""

    def __init__(self, input_dim: int, dim: int, num_layers: int, width: int) -> None:
        super().__init__()
        self.filters = nn.ModuleList(
            nn.Conv1d(input_dim if layer == 0 else dim, dim, width, padding=width // 2) for layer in range(num_layers)
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        valid = mask[:, None]
        states = inputs.transpose(1, 2) * valid
        for number, filters in enumerate(self.filters):
            new = F.relu(filters(states)) * valid
            states = new if number == 0 else states + new
        return states.transpose(1, 2)


class _Linear(nn.Module):
    """A linear map of each word's vector."""

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.projection = nn.Linear(input_dim, dim)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        projected: Tensor = self.projection(inputs)
        return projected * mask[..., None]


@dataclass(frozen=True)
class BilmReference:
    """The biLM that a task was trained with: its source, its fingerprints and its shape."""

    source: str | None  # None: the default model
    hash: str  # of its weights
    num_layers: int
    dim: int
    is_carried: bool = False
    precision: str = "float32"
    context_dim: int = 0  # of the context vectors, if the task uses them
    context_hash: str | None = None

    @property
    def num_values(self) -> int:
        """The number of values of one word: all layers, then the context vector."""
        return self.num_layers * self.dim + self.context_dim


@dataclass(frozen=True)
class NetworkInputs:
    """The word-level inputs of a task network: vocabularies, and the layers of a frozen biLM."""

    words: Vocabularies
    bilm: BilmReference | None = None
    read_layers: ReadLayers | None = None  # the values of a sentence; None without a frozen biLM

    def stack_layers(self, sentences: Sequence[Words], length: int) -> Tensor:
        """Return the layers (L+1, B, T, 2D) of the frozen biLM for sentences padded to `length`."""
        assert self.bilm is not None and self.read_layers is not None
        num_layers, dim = self.bilm.num_layers, self.bilm.dim
        stacked = np.zeros((len(sentences), length, num_layers, dim), dtype=np.float32)
        for row, words in zip(stacked, sentences, strict=True):
            row[: len(words)] = self.read_layers(words).reshape(-1, num_layers, dim)
        return torch.from_numpy(stacked).permute(2, 0, 1, 3)


def batch_length(sentences: Sequence[Words]) -> int:
    """Return T, the length that a batch of sentences is padded to."""
    return max(1, *map(len, sentences))


class Encoder(nn.Module):
    """Sentences -> [x; ELMo] -> sequence encoder -> [h; ELMo]; the settings say where ELMo vectors are concatenated."""

    __call__: Callable[..., tuple[Tensor, Tensor]]  # nn.Module's own signature would hide the result's type

    def __init__(
        self,
        inputs: NetworkInputs,
        words: WordFeatures,
        elmo: LayerMixes | ElmoLayer | None,
        settings: TaskSettings,
        *,
        extra_dim: int = 0,
    ) -> None:
        """`elmo`: mixes precomputed layers, or is an ElmoLayer to fine-tune; `extra_dim`: extra features per word."""
        super().__init__()
        self._inputs = inputs
        self.words = words
        self.elmo = elmo
        where, elmo_dim = settings.elmo.where, 0 if elmo is None else elmo.output_dim
        self._at_input, self._at_output = where in ("input", "both"), where in ("output", "both")
        self.input_dim = words.dim + extra_dim + elmo_dim * self._at_input
        # Variational dropout: the same features are dropped at every word of a sentence; Dropout1d expects (B, D, T).
        self.input_dropout = nn.Dropout1d(settings.words.dropout)
        self.output_dropout = nn.Dropout(settings.network.dropout)
        self.sequence = build_sequence_encoder(settings.network, self.input_dim)
        self.output_dim = settings.network.dim + elmo_dim * self._at_output

    def forward(self, sentences: Sequence[Words], extra: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return h (B, T, output_dim), zero where padded, and the mask (B, T); T is at least 1.

        `extra` (B, T, extra_dim) is concatenated with the word vectors.
        """
        length = batch_length(sentences)
        mask = span_mask([(0, len(words)) for words in sentences], length)
        mixes = self._mix(sentences, mask)
        features = [self.words(sentences, length)]
        features += [] if extra is None else [extra]
        features += [mixes[0]] if self._at_input else []
        inputs = torch.cat(features, dim=-1)
        states = self.sequence(self.input_dropout(inputs.transpose(1, 2)).transpose(1, 2), mask)
        if self._at_output:
            states = torch.cat([states, mixes[-1]], dim=-1)
        return self.output_dropout(states) * mask[..., None], mask

    def _mix(self, sentences: Sequence[Words], mask: Tensor) -> tuple[Tensor, ...]:
        if self.elmo is None:
            return ()
        length = mask.shape[1]
        if isinstance(self.elmo, ElmoLayer):
            mixed = self.elmo([list(words) for words in sentences]).mixes
            return tuple(F.pad(mix, (0, 0, 0, length - mix.shape[1])) for mix in mixed)
        return self.elmo(self._inputs.stack_layers(sentences, length), mask)


def _pad(rows: list[list[int]], length: int) -> Tensor:
    return torch.tensor([row + [0] * (length - len(row)) for row in rows], dtype=torch.int64)


def pool_max(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, D): the maximum over the unmasked positions; zeros if all are masked."""
    best = states.masked_fill(~mask[..., None], MASKED_SCORE).amax(dim=-2)
    return best * mask.any(dim=-1, keepdim=True)


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, D): the mean over the unmasked positions; zeros if all are masked."""
    valid = mask[..., None].to(states.dtype)
    return (states * valid).sum(dim=-2) / valid.sum(dim=-2).clamp(min=1)


def pool_max_mean(states: Tensor, mask: Tensor) -> Tensor:
    """(…, T, D) and (…, T) -> (…, 2D): maximum and mean over the unmasked positions."""
    return torch.cat([pool_max(states, mask), pool_mean(states, mask)], dim=-1)


def pool_spans(states: Tensor, rows: Tensor, spans: Sequence[tuple[int, int]]) -> Tensor:
    """Return max and mean (N, 2D) of N half-open spans; span n is in sentence rows[n] of `states` (B, T, D)."""
    starts, ends = torch.tensor(spans, dtype=torch.int64).view(-1, 2).unbind(dim=1)
    lengths = (ends - starts).clamp(min=1)
    # A sparse table: the maxima of 1, 2, 4, … words starting at each word. Two overlapping entries cover any span.
    tables, width = [states], 1
    while 2 * width <= int(lengths.max()):
        wider = torch.maximum(tables[-1][:, :-width], tables[-1][:, width:])
        tables.append(torch.cat([wider, tables[-1][:, -width:]], dim=1))
        width *= 2
    level = lengths.log2().floor().to(torch.int64)
    flat, (num_rows, num_words, dim) = torch.stack(tables).view(-1, states.shape[-1]), states.shape
    offset = (level * num_rows + rows) * num_words
    last = starts + lengths - 2**level
    best = torch.maximum(flat.index_select(0, offset + starts), flat.index_select(0, offset + last))
    sums = F.pad(states.cumsum(dim=1), (0, 0, 1, 0)).reshape(-1, dim)
    offset = rows * (num_words + 1)
    total = sums.index_select(0, offset + ends) - sums.index_select(0, offset + starts)
    return torch.cat([best, total / lengths[:, None]], dim=-1)


def span_mask(spans: Sequence[tuple[int, int]], length: int) -> Tensor:
    """Return (N, length): True inside each half-open range."""
    positions, bounds = torch.arange(length), torch.tensor(spans).view(-1, 2)
    return (positions >= bounds[:, :1]) & (positions < bounds[:, 1:])


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the unmasked positions of the last dimension; zeros if all are masked."""
    return torch.softmax(scores.masked_fill(~mask, MASKED_SCORE), dim=-1) * mask


def attend(queries: Tensor, keys: Tensor, key_mask: Tensor) -> Tensor:
    """Dot-product attention: for each query (B, T, D), the softmax-weighted mean of the keys (B, S, D)."""
    return masked_softmax(queries @ keys.transpose(1, 2), key_mask[:, None]) @ keys


class AttentionPooling(nn.Module):
    """(…, T, D) and (…, T) -> (…, D): a mean with a learned weight for each position."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, dim // 2 or 1)
        self.weight = nn.Linear(dim // 2 or 1, 1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Pool the unmasked positions."""
        weights = masked_softmax(self.weight(self.hidden(states).tanh())[..., 0], mask)
        return (weights[..., None] * states).sum(dim=-2)
