"""A trained model, a teacher and some text -> a basis in which the model's cosines are nearer to the teacher's.

Nothing of the language model is trained: only two matrices are, one for the word vectors and one for all other
layers, and `change_basis` writes them into the weights. They make small what helps to predict neighbours and says
little of meaning.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.errors import InputError
from elmo.model import Elmo
from elmo.pretrain.relations import compare_relations, find_others
from elmo.pretrain.teacher import Teacher

SENTENCES_AT_ONCE = 128
MIN_OCCURRENCES = 8  # of a word whose occurrences are compared
MAX_SHARE = 1 / 500  # of all words; more frequent ones are mostly not of the kind that has senses
MIN_GROUPS = 20  # of occurrences of a word
HELD_OUT = 10  # one of so many groups is only measured
GROUPS_AT_ONCE, GROUP_SIZE, RANDOM_WORDS = 16, 32, 384
RANDOM_WEIGHT = 0.3  # of the loss among words drawn at random
LEARNING_RATE = 2e-3
SMALLEST = 0.2  # singular value of a matrix, 1 is the largest: the language model still reads what is made small
STEPS_BETWEEN_BOUNDS = 5
NONE = -1  # in the place of a place

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadWords:
    """Words of a text in their sentences, by the model and by the teacher."""

    words: Sequence[str]
    layers: Tensor  # (L+1, N, 2D), float16
    vectors: Tensor  # (N, E), of length 1


@dataclass(frozen=True)
class Agreement:
    """How the cosines among occurrences of a word go with the teacher's: mean correlations over words held out."""

    top: float
    average: float


@dataclass(frozen=True)
class Alignment:
    """Two matrices (D, D) for change_basis, and what they do."""

    words: Tensor
    layers: Tensor
    before: Agreement
    after: Agreement


def read_words(
    model: Elmo,
    teacher: Teacher,
    sentences: Iterable[Sequence[str]],
    *,
    num_words: int,
    advance: Callable[[int], None] = lambda num_words: None,
) -> ReadWords:
    """Read sentences until there are `num_words` words; `advance` is told how many more there are."""
    words: list[str] = []
    layers: list[Tensor] = []
    vectors: list[Tensor] = []
    batch: list[Sequence[str]] = []

    def read() -> None:
        pieces = teacher.cut(batch)
        found = np.concatenate(model.embed(batch, layers="all"), axis=1)[:, pieces.words.numpy()]
        layers.append(torch.from_numpy(found).half())
        vectors.append(teacher.vectors(pieces).cpu())
        named = [word for sentence in batch for word in sentence]
        words.extend(named[number] for number in pieces.words.tolist())
        advance(len(pieces.words))
        batch.clear()

    num_taken = 0
    for sentence in sentences:
        if sentence:
            batch.append(sentence)
            num_taken += len(sentence)
        if len(batch) == SENTENCES_AT_ONCE:
            read()
        if num_taken >= num_words:
            break
    if batch:
        read()
    if not words:
        raise InputError("The text has no words; give text of the kind that the model is used on.")
    return ReadWords(words, torch.cat(layers, dim=1), torch.cat(vectors))


def align(
    read: ReadWords, *, num_steps: int = 300, seed: int = 0, advance: Callable[[], None] = lambda: None
) -> Alignment:
    """Find the matrices; `advance` is called after each of `num_steps` steps."""
    random = np.random.default_rng(seed)
    groups = _find_groups(read.words, random)
    held_out, taught = groups[::HELD_OUT], [group for at, group in enumerate(groups) if at % HELD_OUT]
    dim = read.layers.shape[2] // 2
    matrices = [torch.eye(dim, requires_grad=True) for _ in range(2)]
    before = _measure(read, held_out, *matrices)
    optimizer = torch.optim.Adam(matrices, lr=LEARNING_RATE)
    for step in range(num_steps):
        for options in optimizer.param_groups:
            options["lr"] = LEARNING_RATE * (1 - step / num_steps)
        groups = [taught[number] for number in random.integers(len(taught), size=GROUPS_AT_ONCE)]
        loss = _differ(read, _choose(groups, random), matrices)
        drawn = torch.from_numpy(random.integers(len(read.words), size=(1, RANDOM_WORDS)))
        loss = loss + RANDOM_WEIGHT * _differ(read, drawn, matrices)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % STEPS_BETWEEN_BOUNDS == 0 or step + 1 == num_steps:
            for matrix in matrices:
                _bound(matrix)
        advance()
    words, layers = (matrix.detach() for matrix in matrices)
    return Alignment(words, layers, before, _measure(read, held_out, words, layers))


def _find_groups(words: Sequence[str], random: np.random.Generator) -> list[Places]:
    """Give the places of words that occur often enough and not all the time, in an order of chance."""
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
            f"{MIN_GROUPS} were expected; give more text, 100,000 words or so."
        )
    random.shuffle(groups)
    return groups


def _choose(groups: Sequence[Places], random: np.random.Generator) -> Tensor:
    """Draw up to GROUP_SIZE places of each group: (G, GROUP_SIZE), NONE where there are fewer."""
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


def _differ(read: ReadWords, places: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Give how far our view of which places of a group (G, n) are near which is from the teacher's: a mean."""
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
