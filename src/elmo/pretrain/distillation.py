"""Learning the word vectors of a teacher: the sentences it teaches, the heads that predict its vectors, losses.

A lesson follows from the seed and the number of its window alone, so a resumed run draws the same. All processes
draw the same sentences and each keeps its own rows.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.errors import ConfigError
from elmo.model import Elmo
from elmo.nn.initialize import draw_glorot
from elmo.pretrain.distributed import Processes
from elmo.pretrain.settings import TrainSettings
from elmo.pretrain.stream import Ids, Lesson, find_targets
from elmo.pretrain.teacher import Pieces, Teacher
from elmo.text.vocabulary import Vocabulary

VALIDATION_WORDS = 5_000  # few, because a teacher is slow
MIN_OTHERS = 2  # other occurrences of a word in a lesson, for its relations to be learned
# Of the softmaxes over cosines. Ours is higher: larger differences of our cosines express the same preference.
TEACHER_TEMPERATURE, TEMPERATURE = 0.05, 0.1
AVERAGE = -1  # in place of the number of a layer
_DRAW = 1  # separates these random numbers from those of the windows
_NEVER = -1e9


class Distillation:
    """The teacher of a run: draws lessons, answers them, and measures the similarity on held-out text."""

    def __init__(
        self,
        corpus: PreparedCorpus,
        settings: TrainSettings,
        processes: Processes,
        *,
        num_updates: int,
        teacher: Teacher | None = None,
    ) -> None:
        """Open the teacher that the settings name (unless one is given) for a run of num_updates."""
        assert settings.teacher is not None
        self._settings, self._processes, self._own = settings, processes, settings.teacher
        self._corpus, self._blocks = corpus, corpus.blocks()
        self._boundaries = Vocabulary(corpus.vocabulary).boundaries()
        # Counted from 0; a lesson is in each update whose number, counted from 1, is a multiple of `every`.
        every = self._own.every
        first, last = round(self._own.begin * num_updates), round(self._own.end * num_updates)
        self._updates = range(first + (-first - 1) % every, last, every)
        if not self._updates:
            raise ConfigError(
                f"teacher.every is {every}, but the teacher has only {last - first} of the run's {num_updates} "
                "updates, so it would never teach; lower teacher.every or train longer."
            )
        precision = torch.bfloat16 if self._own.precision == "bfloat16" else torch.float32
        self.teacher = teacher or Teacher(self._own.model, precision=precision, device=processes.device)
        self._held_out: tuple[list[list[str]], Pieces, Tensor] | None = None

    def make_heads(self, *, num_layers: int, vector_dim: int) -> "TeacherHeads":
        """Build the heads that predict the teacher's vectors; num_layers includes the word vectors."""
        heads = TeacherHeads(
            self._own.heads, num_layers=num_layers, input_dim=vector_dim, output_dim=self.teacher.dim
        )
        return heads.to(self._processes.device)

    def answer(self, lesson: Lesson) -> Lesson:
        """Return the lesson with the teacher's vectors."""
        return replace(lesson, vectors=self.teacher.vectors(lesson.pieces))

    def validate(self, model: Elmo, heads: "TeacherHeads", sentences: Sequence[Sequence[str]]) -> float:
        """Return the mean cosine of the heads' vectors with the teacher's over about VALIDATION_WORDS words."""
        if self._held_out is None:
            chosen = choose_sentences(sentences, self._own.max_words)
            pieces = self.teacher.cut(chosen)
            self._held_out = chosen, pieces, self.teacher.vectors(pieces)
        chosen, pieces, vectors = self._held_out
        layers = torch.from_numpy(np.concatenate(model.embed(chosen, layers="all"), axis=1))
        with torch.no_grad():
            return float(heads(layers[:, pieces.words].to(vectors.device), vectors).mean())

    def lessons(self, *, done: int = 0) -> Iterator[Lesson | None]:
        """Yield the lesson of each window after the first `done` updates.

        It is None in updates without one, and where none of its rows is this process's.
        """
        num_windows = self._settings.windows_per_update
        for window in itertools.count(done * num_windows):
            yield self._make_lesson(window) if window // num_windows in self._updates else None

    def _make_lesson(self, window: int) -> Lesson | None:
        """Draw whole sentences and pack them into rows; with `predict`, also what the language model predicts."""
        sentences = self._draw(window)
        rows = pack_rows([len(sentence) for sentence in sentences])[self._processes.rank :: self._processes.count]
        if not rows:
            return None
        packed = [[sentences[number] for number in row] for row in rows]
        ids, places = _lay_out(packed)
        pieces = self.teacher.cut([self._corpus.words(sentence) for row in packed for sentence in row])
        predicting, following = np.zeros((2, 2, 0), dtype=np.int64)
        num_predicted = 0
        if self._own.predict:
            predicting, following = self._follow(packed)
            num_predicted = sum(len(sentence) + self._is_whole(sentence) for sentence in sentences)
        return Lesson(
            word_index=torch.from_numpy(ids),
            keep=torch.from_numpy(ids[0] != MARK).float(),
            places=torch.from_numpy(places)[:, pieces.words],
            pieces=pieces,
            num_words=sum(map(len, sentences)),
            predicting=torch.from_numpy(predicting),
            targets=torch.from_numpy(find_targets(self._corpus, following, self._boundaries)),
            num_predicted=num_predicted,
        )

    def _follow(self, rows: Sequence[Sequence[Ids]]) -> tuple[Ids, Ids]:
        """Return the places (2, M), in T·B, where the next word or the end is known, and its id in the corpus."""
        places: list[Ids] = []
        ids: list[Ids] = []
        for column, row in enumerate(rows):
            start = 0
            for sentence in row:
                steps = np.arange(start, start + 1 + len(sentence))
                ahead, back = np.append(sentence, MARK), np.append(sentence[::-1], MARK)
                pair = np.stack([steps, steps]), np.stack([ahead, back])
                if not self._is_whole(sentence):  # truncated: the word after the last one is unknown
                    pair = np.stack([steps[:-1], steps[1:]]), np.stack([ahead[:-1], back[1:]])
                places.append(pair[0] * len(rows) + column)
                ids.append(pair[1])
                start += len(sentence) + 1
        return np.concatenate(places, axis=1), np.concatenate(ids, axis=1)

    def _is_whole(self, sentence: Ids) -> bool:
        """Return whether a sentence was certainly not truncated."""
        return len(sentence) < self._own.max_words

    def _draw(self, window: int) -> list[Ids]:
        """Draw sentences from the whole corpus: a block, then one of its sentences."""
        settings, own = self._settings, self._own
        random = np.random.default_rng([settings.seed, _DRAW, window])
        found: list[Ids] = []
        missing = max(1, round(own.share * own.every * settings.num_rows * settings.num_steps))
        while missing > 0:
            shard, start, stop = self._blocks[random.integers(len(self._blocks))]
            ids = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
            marks = np.append(np.flatnonzero(ids == MARK), len(ids))
            chosen = random.integers(len(marks) - 1)
            sentence = ids[marks[chosen] + 1 : marks[chosen + 1]][: own.max_words]
            if len(sentence):
                found.append(sentence)
                missing -= len(sentence)
        return found


def choose_sentences(sentences: Sequence[Sequence[str]], max_words: int) -> list[list[str]]:
    """Return every nth sentence, truncated as in training, about VALIDATION_WORDS words in all."""
    truncated = [list(words[:max_words]) for words in sentences if words]
    step = max(1, round(sum(map(len, truncated)) / VALIDATION_WORDS))
    return truncated[::step]


def pack_rows(lengths: Sequence[int]) -> list[list[int]]:
    """Deal sentences, longest first, to rows as long as the longest: each to the first row that has room."""
    size = max(lengths) + 1
    rows: list[list[int]] = []
    room: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        needed = lengths[number] + 1  # its mark
        for row, left in enumerate(room):
            if needed <= left:
                rows[row].append(number)
                room[row] -= needed
                break
        else:
            rows.append([number])
            room.append(size - needed)
    return rows


def _lay_out(rows: Sequence[Sequence[Ids]]) -> tuple[Ids, Ids]:
    """Return ids (2, T, B), padded with marks, and where each word is read (2, N), in T·B."""
    num_steps = max(sum(len(sentence) + 1 for sentence in row) for row in rows)
    ids = np.full((2, num_steps, len(rows)), MARK, dtype=np.int64)
    places: list[Ids] = []
    for column, row in enumerate(rows):
        start = 0
        for sentence in row:
            steps = np.arange(start + 1, start + 1 + len(sentence))
            ids[0, steps, column] = sentence
            ids[1, steps, column] = sentence[::-1]
            places.append(np.stack([steps, steps[::-1]]) * len(rows) + column)
            start += len(sentence) + 1
    return ids, np.concatenate(places, axis=1)


class TeacherHeads(nn.Module):
    """A linear map per layer that learns, or for the average of all; trained beside the model, not in it."""

    def __init__(self, names: Sequence[str], *, num_layers: int, input_dim: int, output_dim: int) -> None:
        """Build the heads that `names` (top, each, average) ask for; num_layers counts the word vectors as one."""
        super().__init__()
        chosen = {"top": range(num_layers - 1, num_layers), "each": range(1, num_layers), "average": [AVERAGE]}
        self._layers = sorted({layer for name in names for layer in chosen[name]})
        self.maps = nn.ModuleList(nn.Linear(input_dim, output_dim) for _ in self._layers)
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                draw_glorot(parameter)

    def forward(self, layers: Tensor, vectors: Tensor) -> Tensor:
        """Layers (L+1, N, 2D) and the teacher's vectors (N, E) of length 1 -> the heads' mean cosine (N,)."""
        found = [
            (F.normalize(head(own), dim=-1) * vectors).sum(dim=-1)
            for head, own in zip(self.maps, self._choose(layers), strict=True)
        ]
        return torch.stack(found).mean(dim=0)

    def relate(self, layers: Tensor, vectors: Tensor, words: Tensor) -> Tensor:
        """Return the loss (N,) on the similarities of each word to its other occurrences, without a head.

        `words` (N,) says which are equal. A word with fewer than MIN_OTHERS other occurrences has the loss 0.
        """
        others = find_others(words)
        losses = [compare_relations(own, vectors, others) for own in self._choose(layers)]
        return torch.stack(losses).mean(dim=0) * (others.sum(dim=1) >= MIN_OTHERS)

    def _choose(self, layers: Tensor) -> list[Tensor]:
        """Return what learns, (N, 2D) each."""
        return [layers.mean(dim=0) if layer == AVERAGE else layers[layer] for layer in self._layers]


def find_others(words: Tensor) -> Tensor:
    """Return which pairs of (..., n) are different occurrences of one word: (..., n, n)."""
    itself = torch.eye(words.shape[-1], dtype=torch.bool, device=words.device)
    return (words[..., :, None] == words[..., None, :]) & ~itself


def compare_relations(own: Tensor, taught: Tensor, others: Tensor) -> Tensor:
    """Vectors (..., n, D), the teacher's (..., n, E) and which to compare (..., n, n) -> losses (..., n).

    A loss is the KL divergence between the softmax of a vector's cosines with the others, ours and the teacher's;
    0 where there are none.
    """
    expected = _softmax_of_cosines(taught, others, TEACHER_TEMPERATURE)
    found = _softmax_of_cosines(own, others, TEMPERATURE)
    return F.kl_div(found, expected, reduction="none", log_target=True).sum(dim=-1)


def _softmax_of_cosines(vectors: Tensor, others: Tensor, temperature: float) -> Tensor:
    unit = F.normalize(vectors, dim=-1)
    return (unit @ unit.mT / temperature).masked_fill(~others, _NEVER).log_softmax(dim=-1)
