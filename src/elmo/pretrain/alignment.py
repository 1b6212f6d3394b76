"""A trained model, a teacher and some text -> a basis in which the model's cosines are closer to the teacher's.

The language model is not trained: only two matrices are, one for the word vectors and one for all other layers,
and `change_basis` writes them into the weights. They shrink directions that say little of meaning.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.derived import change_basis, check_basis
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.pretrain.distillation import Teacher, compare_relations, find_others
from elmo.progress import progress_bar

SENTENCES_AT_ONCE = 128
MIN_OCCURRENCES = 8  # of a word whose occurrences are compared
MAX_SHARE = 1 / 500  # of all words; more frequent ones are mostly function words
MIN_GROUPS = 20  # words with enough occurrences
HELD_OUT = 10  # every tenth group is only measured
GROUPS_AT_ONCE, GROUP_SIZE, RANDOM_WORDS = 16, 32, 384
RANDOM_WEIGHT = 0.3  # of the loss among words drawn at random
LEARNING_RATE = 2e-3
SMALLEST = 0.2  # singular value, where 1 is the largest: the language model still reads what is shrunk
STEPS_BETWEEN_BOUNDS = 5
NONE = -1  # padding among places

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadWords:
    """Words of a text in their sentences, as the model and the teacher represent them."""

    words: Sequence[str]
    layers: Tensor  # (L+1, N, 2D), float16
    vectors: Tensor  # (N, E), of length 1


class Agreement(NamedTuple):
    """Correlation of the cosines among occurrences of a word with the teacher's: means over held-out words."""

    top: float
    average: float


@dataclass(frozen=True)
class Alignment:
    """Two matrices (D, D) for change_basis, and their effect."""

    words: Tensor
    layers: Tensor
    before: Agreement
    after: Agreement
    num_words: int  # of text


def align_model(
    model: Elmo,
    sentences: Iterable[Sequence[str]],
    *,
    teacher: str,
    max_words: int = 100_000,
    seed: int = 0,
    progress: bool = False,
) -> tuple[Checkpoint, Alignment]:
    """Return the model in a basis that brings its cosines closer to the teacher's, and what that changes.

    Its predictions stay the same. `sentences` are words of text of the kind that the model is used on; `teacher`
    is a Hugging Face encoder.
    """
    check_basis(model.config)
    with progress_bar(unit="words", num_bytes=None, shown=progress) as advance:
        read = read_words(
            model, Teacher(teacher), sentences, num_words=max_words, advance=lambda more: advance(0, more)
        )
    with progress_bar(unit="steps", num_bytes=None, shown=progress) as advance:
        found = align(read, seed=seed, advance=lambda: advance(0))
    return change_basis(model.checkpoint(), words=found.words, layers=found.layers), found


def read_words(
    model: Elmo,
    teacher: Teacher,
    sentences: Iterable[Sequence[str]],
    *,
    num_words: int,
    advance: Callable[[int], None] = lambda num_words: None,
) -> ReadWords:
    """Read sentences until there are `num_words` words; `advance` is called with the number of words read."""
    chosen: list[Sequence[str]] = []
    num_taken = 0
    for sentence in sentences:
        if sentence:
            chosen.append(sentence)
            num_taken += len(sentence)
        if num_taken >= num_words:
            break
    words: list[str] = []
    layers: list[Tensor] = []
    vectors: list[Tensor] = []
    for start in range(0, len(chosen), SENTENCES_AT_ONCE):
        batch = chosen[start : start + SENTENCES_AT_ONCE]
        pieces = teacher.cut(batch)
        found = np.concatenate(model.embed(batch, layers="all"), axis=1)[:, pieces.words.numpy()]
        layers.append(torch.from_numpy(found).half())
        vectors.append(teacher.vectors(pieces).cpu())
        in_order = [word for sentence in batch for word in sentence]
        words.extend(in_order[number] for number in pieces.words.tolist())
        advance(len(pieces.words))
    if not words:
        raise InputError("The text has no words; give text of the kind that the model is used on.")
    return ReadWords(words, torch.cat(layers, dim=1), torch.cat(vectors))


def align(
    read: ReadWords, *, num_steps: int = 300, seed: int = 0, advance: Callable[[], None] = lambda: None
) -> Alignment:
    """Train the matrices; `advance` is called after each of `num_steps` steps."""
    random = np.random.default_rng(seed)
    groups = _find_groups(read.words, random)
    held_out, taught = groups[::HELD_OUT], [group for at, group in enumerate(groups) if at % HELD_OUT]
    dim = read.layers.shape[2] // 2
    matrices = [torch.eye(dim, requires_grad=True) for _ in range(2)]
    before = _measure(read, held_out, *matrices)
    optimizer = torch.optim.Adam(matrices, lr=LEARNING_RATE)
    for step in range(num_steps):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / num_steps)
        groups = [taught[number] for number in random.integers(len(taught), size=GROUPS_AT_ONCE)]
        loss = _compare(read, _choose(groups, random), matrices)
        drawn = torch.from_numpy(random.integers(len(read.words), size=(1, RANDOM_WORDS)))
        loss = loss + RANDOM_WEIGHT * _compare(read, drawn, matrices)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % STEPS_BETWEEN_BOUNDS == 0 or step + 1 == num_steps:
            for matrix in matrices:
                _bound(matrix)
        advance()
    words, layers = (matrix.detach() for matrix in matrices)
    return Alignment(words, layers, before, _measure(read, held_out, words, layers), len(read.words))


def _find_groups(words: Sequence[str], random: np.random.Generator) -> list[Places]:
    """Return the places of each word that occurs often enough but not too often, shuffled."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        places[word.lower()].append(place)
    most = max(2 * GROUP_SIZE, MAX_SHARE * len(words))
    groups = [
        np.array(found)
        for word, found in places.items()
        if word.isalpha() and MIN_OCCURRENCES <= len(found) <= most
    ]
    if len(groups) < MIN_GROUPS:
        raise InputError(
            f"Of {len(words):,} words of text, {len(groups)} occur {MIN_OCCURRENCES} times or more, and at least "
            f"{MIN_GROUPS} were expected; give more text, about 100,000 words."
        )
    random.shuffle(groups)
    return groups


def _choose(groups: Sequence[Places], random: np.random.Generator) -> Tensor:
    """Draw up to GROUP_SIZE places of each group: (G, GROUP_SIZE), padded with NONE."""
    chosen = torch.full((len(groups), GROUP_SIZE), NONE)
    for row, group in zip(chosen, groups, strict=True):
        places = torch.from_numpy(random.permutation(group)[:GROUP_SIZE])
        row[: len(places)] = places
    return chosen


def _multiply(layers: Tensor, words_matrix: Tensor, layers_matrix: Tensor) -> list[Tensor]:
    """Layers (L+1, ..., 2D) -> what is compared, in the new basis: each but the word vectors, then the average."""
    split = layers.float().view(*layers.shape[:-1], 2, -1)
    changed = torch.cat([split[:1] @ words_matrix, split[1:] @ layers_matrix]).flatten(-2)
    return [*changed[1:], changed.mean(dim=0)]


def _compare(read: ReadWords, places: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Return the mean loss on the similarities among the places of each group (G, n)."""
    is_there = places != NONE
    others = find_others(is_there) & is_there[:, None]
    vectors = read.vectors[places]
    losses = [
        compare_relations(found, vectors, others)[is_there].mean()
        for found in _multiply(read.layers[:, places], *matrices)
    ]
    return torch.stack(losses).mean()


def _bound(matrix: Tensor) -> None:
    """Keep the singular values between SMALLEST and 1."""
    with torch.no_grad():
        left, values, right = torch.linalg.svd(matrix)
        matrix.copy_((left * values.clamp(SMALLEST, 1.0)) @ right)


def _measure(read: ReadWords, groups: Sequence[Places], words: Tensor, layers: Tensor) -> Agreement:
    found: list[list[float]] = [[], []]
    with torch.no_grad():
        for group in groups:
            places = group[:GROUP_SIZE]
            pairs = torch.triu_indices(len(places), len(places), 1)
            wanted = (read.vectors[places] @ read.vectors[places].T)[pairs[0], pairs[1]]
            *_, top, average = _multiply(read.layers[:, places], words, layers)
            for kind, vectors in zip(found, (top, average), strict=True):
                own = F.normalize(vectors, dim=1)
                cosines = (own @ own.T)[pairs[0], pairs[1]]
                kind.append(float(torch.corrcoef(torch.stack([cosines, wanted]))[0, 1]))
    return Agreement(*(float(np.nanmean(kind)) for kind in found))
