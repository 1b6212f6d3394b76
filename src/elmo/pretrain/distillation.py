"""A run's teacher: its lessons, its answers to them, and how near ours come to it on held-out text."""

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import ConfigError
from elmo.model import Elmo
from elmo.pretrain.distributed import Processes
from elmo.pretrain.lessons import LessonStream
from elmo.pretrain.settings import TeacherSettings, TrainSettings
from elmo.pretrain.stream import LMBatch
from elmo.pretrain.teacher import Pieces, Teacher
from elmo.pretrain.teacher_heads import TeacherHeads

VALIDATION_WORDS = 5_000  # so many show how near we are; a teacher is slow


class Distillation:
    """What a run with a teacher does besides learning to predict words."""

    def __init__(self, settings: TeacherSettings, processes: Processes, *, num_updates: int) -> None:
        """Open the teacher for a run of num_updates."""
        self._settings, self._processes = settings, processes
        # Counted from 0; a lesson is in each update whose number, counted from 1, is a multiple of `every`.
        first, last = round(settings.begin * num_updates), round(settings.end * num_updates)
        self._updates = range(first + (-first - 1) % settings.every, last, settings.every)
        if not self._updates:
            raise ConfigError(
                f"teacher.every is {settings.every}, but the teacher has only {last - first} of the run's "
                f"{num_updates} updates, so it would never teach; lower teacher.every or train longer."
            )
        precision = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        self._teacher = Teacher(settings.model, precision=precision, device=processes.device)
        self._held_out: tuple[list[list[str]], Pieces, Tensor] | None = None

    def make_heads(self, *, num_layers: int, vector_dim: int) -> TeacherHeads:
        """Make what predicts the teacher's vectors; num_layers counts the word vectors as one."""
        heads = TeacherHeads(
            self._settings.heads, num_layers=num_layers, input_dim=vector_dim, output_dim=self._teacher.dim
        )
        return heads.to(self._processes.device)

    def lessons(self, corpus: PreparedCorpus, settings: TrainSettings, *, done: int) -> LessonStream:
        """Give the lessons of a run, from those of the update after so many `done` on."""
        own = self._settings
        return LessonStream(
            corpus,
            self._teacher,
            num_words=max(1, round(own.share * own.every * settings.num_rows * settings.num_steps)),
            max_words=own.max_words,
            predict=own.predict,
            updates=self._updates,
            windows_per_update=settings.windows_per_update,
            seed=settings.seed,
            done=done,
            rank=self._processes.rank,
            num_processes=self._processes.count,
        )

    def answer(self, batches: Generator[LMBatch, None, None]) -> Generator[LMBatch, None, None]:
        """Give the same batches, each lesson with the teacher's vectors."""
        with contextlib.closing(batches):
            for batch in batches:
                lesson = batch.lesson
                if lesson is not None:
                    lesson = replace(lesson, vectors=self._teacher.vectors(lesson.pieces))
                yield replace(batch, lesson=lesson)

    def validate(self, model: Elmo, heads: TeacherHeads, sentences: Sequence[Sequence[str]]) -> float:
        """Give the mean cosine of the heads' vectors with the teacher's on up to VALIDATION_WORDS words."""
        if self._held_out is None:
            chosen = _choose(sentences, self._settings.max_words)
            pieces = self._teacher.cut(chosen)
            self._held_out = chosen, pieces, self._teacher.vectors(pieces)
        chosen, pieces, vectors = self._held_out
        layers = torch.from_numpy(np.concatenate(model.embed(chosen, layers="all"), axis=1))
        with torch.no_grad():
            return float(heads(layers[:, pieces.words].to(vectors.device), vectors).mean())


def _choose(sentences: Sequence[Sequence[str]], max_words: int) -> list[list[str]]:
    """Take every nth sentence, cut as in training, for about VALIDATION_WORDS words in all."""
    cut = [list(words[:max_words]) for words in sentences if words]
    step = max(1, round(sum(map(len, cut)) / VALIDATION_WORDS))
    return cut[::step]
