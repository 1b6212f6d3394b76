"""Question answering: a question and a passage -> the span of the passage that answers it, or no answer."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.examples import AnswerPrediction, Question, Words
from elmo.tasks.families.blocks import (
    MASKED_SCORE,
    AttentionPooling,
    batch_length,
    build_sequence_encoder,
    masked_softmax,
    pool_max,
)
from elmo.tasks.families.metrics import score_answers
from elmo.tasks.families.network import Labels, MakeEncoder, TaskNetwork
from elmo.tasks.settings import TaskSettings

MAX_ANSWER_WORDS = 20


class QuestionAnswering(TaskNetwork):
    """Passage words that attend to the question -> scores of being the first and the last word of the answer.

    If the training data has questions without an answer, one more position after the words means "no answer".
    """

    main_metric = "f1"

    def __init__(self, make_encoder: MakeEncoder, labels: Labels, settings: TaskSettings) -> None:
        super().__init__(labels)
        self.encoder = make_encoder(2)
        self._max_words = labels["max_words"]
        dim, state_dim = settings.network.dim, self.encoder.output_dim
        self.align = nn.Linear(state_dim, dim)
        self.combine = nn.Linear(4 * state_dim, dim)
        self.model = build_sequence_encoder(settings.network, dim)
        self.dropout = nn.Dropout(settings.network.dropout)
        self.question = AttentionPooling(state_dim)
        self.first = nn.Linear(state_dim, dim)
        self.last = nn.Linear(state_dim, dim)
        self.scores = nn.Linear(dim, 2)
        # Tasks written by the first versions lack this label; they always give an answer.
        self.no_answer = nn.Linear(state_dim + dim, 2) if labels.get("no_answer") else None

    @staticmethod
    def texts(example: Question) -> tuple[Words, ...]:
        """Return the question and its passage."""
        return (example.words, example.passage_words)

    @staticmethod
    def learn_labels(examples: Sequence[Question], settings: TaskSettings) -> Labels:
        """Return how long an answer may be, and whether there are questions without one (SQuAD 2)."""
        no_answer = any(not example.answers for example in examples)
        return {"max_words": MAX_ANSWER_WORDS, "no_answer": no_answer}

    def unknown_targets(self, example: Question) -> list[str]:
        """Return "no answer" if training had no such question; any span of a passage is known."""
        return [] if example.answers or self.no_answer is not None else ["no answer"]

    def score(self, examples: Sequence[Question], predictions: Sequence[AnswerPrediction]) -> dict[str, float]:
        """Return word F1 and exact match, as SQuAD defines them."""
        return score_answers([example.answers for example in examples], [prediction.text for prediction in predictions])

    def loss(self, examples: Sequence[Question]) -> Tensor:
        """Return the cross entropy of the first and of the last word."""
        first, last = self._score(examples)
        num_positions = first.shape[1]
        targets = [example.answer_span for example in examples]
        if self.no_answer is not None:
            targets = [
                span if example.answers else (num_positions - 1, num_positions)
                for example, span in zip(examples, targets, strict=True)
            ]
        # An answer that is only white space between words has no span of words.
        rows = [row for row, span in enumerate(targets) if span is not None]
        spans = torch.tensor([targets[row] for row in rows]).view(-1, 2)
        if not rows:
            return first.sum() * 0
        return (F.cross_entropy(first[rows], spans[:, 0]) + F.cross_entropy(last[rows], spans[:, 1] - 1)) / 2

    def predict_batch(self, examples: Sequence[Question]) -> list[AnswerPrediction]:
        """Return the most probable answer of at most `max_words` words, or none if that is more probable."""
        first, last = (torch.log_softmax(scores, dim=-1) for scores in self._score(examples))
        length = first.shape[1]
        span_scores = first[:, :, None] + last[:, None, :]
        allowed = torch.ones(length, length, dtype=torch.bool).triu().tril(self._max_words - 1)
        if self.no_answer is not None:
            allowed[:-1, -1] = False
        best, indices = span_scores.masked_fill(~allowed, MASKED_SCORE).flatten(1).max(dim=1)
        return [
            _make_answer(example, index // length, index % length, probability)
            for example, index, probability in zip(examples, indices.tolist(), best.exp().tolist(), strict=True)
        ]

    def _score(self, examples: Sequence[Question]) -> tuple[Tensor, Tensor]:
        """Return the scores (B, T) of the first and of the last word; (B, T + 1) if there may be no answer."""
        questions = [example.words for example in examples]
        passages = [example.passage_words for example in examples]
        no_matches = torch.zeros(len(questions), batch_length(questions), 2)
        question_states, question_mask = self.encoder(questions, no_matches)
        states, mask = self.encoder(passages, _word_matches(examples, batch_length(passages)))
        weights = masked_softmax(
            self.align(states) @ self.align(question_states).transpose(1, 2), question_mask[:, None]
        )
        aligned = weights @ question_states
        question = self.question(question_states, question_mask)
        combined = torch.cat([states, aligned, states * aligned, states * question[:, None]], dim=-1)
        mixed = F.relu(self.combine(self.dropout(combined)))
        modelled = self.dropout(self.model(mixed, mask))
        scores = self.scores(modelled)
        scores = scores + torch.cat([modelled @ end(question)[..., None] for end in (self.first, self.last)], dim=-1)
        scores = scores.masked_fill(~mask[..., None], MASKED_SCORE)
        if self.no_answer is not None:
            no_answer = self.no_answer(torch.cat([question, pool_max(modelled, mask)], dim=-1))
            scores = torch.cat([scores, no_answer[:, None]], dim=1)
        return scores[..., 0], scores[..., 1]


def _word_matches(examples: Sequence[Question], length: int) -> Tensor:
    """Return (B, length, 2): whether a passage word is in the question exactly, and ignoring case."""
    matches = torch.zeros(len(examples), length, 2)
    for row, example in enumerate(examples):
        exact, lower = set(example.words), {word.lower() for word in example.words}
        rows = [[float(word in exact), float(word.lower() in lower)] for word in example.passage_words]
        matches[row, : len(rows)] = torch.tensor(rows).view(-1, 2)
    return matches


def _make_answer(example: Question, first: int, last: int, probability: float) -> AnswerPrediction:
    if not example.offsets:
        return AnswerPrediction("", 0, 0.0)
    if first >= len(example.offsets):
        return AnswerPrediction("", 0, probability)
    start, end = example.offsets[first][0], example.offsets[last][1]
    return AnswerPrediction(example.passage[start:end], start, probability)
