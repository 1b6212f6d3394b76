"""One update of the weights: the loss of a window of packed rows, its gradients, the only step of the optimizer.

What is minimised is the loss of predicting the next word and the previous one; the losses of a teacher and of the
context objective stand beside it.
The learning rate and everything random are functions of the number of the update alone, so that resuming is exact.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elmo.errors import ElmoError
from elmo.nn.bilm import BiLM, BiLMState
from elmo.nn.reading_state import TrainingOptions
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.context import ContextHead
from elmo.pretrain.distillation import TeacherHeads
from elmo.pretrain.distributed import average_weights, combine_sparse, count_processes, own_rank
from elmo.pretrain.settings import OptimizerSettings, TrainSettings
from elmo.pretrain.stream import ContextTargets, Lesson, LMBatch, Position, move

INITIAL_ACCUMULATOR = 1.0
FINAL_RATE_SHARE = 0.1  # of the rate, after a decay


class DivergedError(ElmoError):
    """The loss is no longer a number; the last good checkpoint is untouched."""


@dataclass(frozen=True)
class WindowLoss:
    """Losses summed over the predictions of a window and its lesson, per direction, and the state after it."""

    left_to_right: Tensor
    right_to_left: Tensor
    state: BiLMState
    teacher: Tensor  # 1 - cosine, summed over the words of a lesson
    relations: Tensor  # the loss on their relations, summed
    context: Tensor  # 1 - cosine, summed over the words with a context to predict


class Objective(nn.Module):
    """The biLM with its training loss; dropout only while training."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        dropout: float,
        product_dtype: torch.dtype = torch.float32,
        heads: TeacherHeads | None = None,
        relates: bool = False,
        context_head: ContextHead | None = None,
    ) -> None:
        """`product_dtype` is that of matrix multiplications; `relates` adds the relations of a lesson's words."""
        super().__init__()
        self.bilm, self.heads, self.context_head = bilm, heads, context_head
        self.relates, self.dropout, self.product_dtype = relates, dropout, product_dtype

    def forward(self, batch: LMBatch, state: BiLMState, samples: NegativeSamples | None) -> WindowLoss:
        """Return the losses of a window, against sampled words or, without samples, the whole vocabulary."""
        mixed = self.product_dtype != torch.float32
        with torch.autocast(batch.word_index.device.type, self.product_dtype, enabled=mixed):
            distinct = self.bilm.tokens(batch.char_ids, batch.word_ids).float()
        read, end = self._read(batch.word_index, batch.keep, state, distinct)
        tops = [layers[-1].flatten(0, 1) for layers in read]  # (T·B, D)
        targets = [*batch.targets.flatten(1)]
        taught = relations = context = distinct.new_zeros(())
        if self.context_head is not None:
            context = self._predict_context(self.context_head, tops, batch.context)
        if self.heads is not None and batch.lesson is None:
            taught = zero_loss(self.heads)
        elif self.heads is not None and batch.lesson is not None:
            lesson = batch.lesson
            start = self.bilm.zero_state(lesson.keep.shape[1])
            read, _ = self._read(lesson.word_index, lesson.keep, start, distinct)
            layers = [torch.stack(side).flatten(1, 2) for side in read]  # (L+1, T·B, D)
            taught, relations = self._teach(self.heads, lesson, layers)
            if lesson.num_predicted:
                for direction, places in enumerate(lesson.predicting):
                    tops[direction] = torch.cat([tops[direction], layers[direction][-1, places]])
                    targets[direction] = torch.cat([targets[direction], lesson.targets[direction]])
        losses = self._predict(tops, targets, samples)
        return WindowLoss(losses[0], losses[1], end, taught, relations, context)

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def _read(
        self, word_index: Tensor, keep: Tensor, state: BiLMState, distinct: Tensor
    ) -> tuple[list[list[Tensor]], BiLMState]:
        """Read packed rows; return each direction's layers, word vectors first, (T, B, D) each, and the state."""
        stacks = (self.bilm.left_to_right, self.bilm.right_to_left)
        starts = (state.left_to_right, state.right_to_left)
        read, ends = [], []
        for stack, start, index in zip(stacks, starts, word_index, strict=True):
            words = F.embedding(index, distinct)
            layers, end = stack.read_layers(words, keep, start, TrainingOptions(self._dropout, self.product_dtype))
            read.append([words, *layers])
            ends.append(end)
        return read, BiLMState(ends[0], ends[1])

    def _predict(self, tops: list[Tensor], targets: list[Tensor], samples: NegativeSamples | None) -> list[Tensor]:
        """Return the loss of each direction, summed over its states (N, D)."""
        assert self.bilm.softmaxes is not None
        losses = []
        for softmax, top, wanted in zip(self.bilm.softmaxes, tops, targets, strict=True):
            states = F.dropout(top, self._dropout, training=self._dropout > 0)
            if samples is None:
                losses.append(softmax.loss(states, wanted))
            else:
                losses.append(softmax.sampled_loss(states.to(self.product_dtype), wanted, samples))
        return losses

    def _predict_context(self, head: ContextHead, tops: list[Tensor], targets: ContextTargets | None) -> Tensor:
        if targets is None or not len(targets.vectors):
            return zero_loss(head)
        states = torch.cat([top[places] for top, places in zip(tops, targets.places, strict=True)], dim=-1)
        cosine: Tensor = head(states.float(), targets.vectors)
        return (1 - cosine).sum()

    def _teach(self, heads: TeacherHeads, lesson: Lesson, layers: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return 1 - cosine with the teacher and, if asked for, the relations, summed over a lesson's words."""
        assert lesson.vectors is not None
        sides = [side[:, places] for side, places in zip(layers, lesson.places, strict=True)]
        read = torch.cat(sides, dim=-1)
        cosine: Tensor = heads(read, lesson.vectors)
        words = lesson.word_index[0].flatten()[lesson.places[0]]
        relations = heads.relate(read, lesson.vectors, words).sum() if self.relates else read.new_zeros(())
        return (1 - cosine).sum(), relations


def zero_loss(module: nn.Module) -> Tensor:
    """Return 0 as a function of every weight of a module: DistributedDataParallel waits for all gradients."""
    return sum((parameter.sum() * 0 for parameter in module.parameters()), start=torch.zeros(()))


@dataclass
class TrainState:
    """What training changes; all of it is saved and loaded."""

    bilm: BiLM
    objective: nn.Module  # Objective, or the same wrapped in DistributedDataParallel
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    bilm_state: BiLMState
    position: Position
    num_updates: int  # so far
    num_words: int  # read so far, by all processes
    heads: TeacherHeads | None = None  # predict a teacher's vectors
    context_head: ContextHead | None = None  # predicts what surrounds a word
    context_fingerprint: str = ""  # of the vectors that it predicts


@dataclass(frozen=True)
class StepReport:
    """What one update measured. Losses are per word, and sampled unless num_samples is 0."""

    update: int
    left_to_right_loss: float
    right_to_left_loss: float
    gradient_norm: float
    learning_rate: float
    num_words: int
    cosines: Mapping[str, float] = field(default_factory=dict)  # teacher_cosine, context_cosine

    def describe(self, *, sampled: bool) -> dict[str, float]:
        """Return what the metrics record; a sampled loss is not comparable with one of the full softmax."""
        kind = "sampled" if sampled else "full"
        return {
            f"left_to_right_{kind}_loss": self.left_to_right_loss,
            f"right_to_left_{kind}_loss": self.right_to_left_loss,
            "gradient_norm": self.gradient_norm,
            "learning_rate": self.learning_rate,
            "num_words": self.num_words,
            **self.cosines,
        }


def train_step(
    state: TrainState, batches: Iterator[LMBatch], settings: TrainSettings, *, num_updates: int, num_words: int
) -> StepReport:
    """Read windows_per_update windows and update the weights once; `num_words` is the size of the vocabulary."""
    update = state.num_updates
    torch.manual_seed(_mix_seed(settings.seed, update, own_rank() + 1))
    device = state.parameters[0].device
    for group in state.optimizer.param_groups:
        group["lr"] = rate_at(update, num_updates, settings.optimizer)
    state.optimizer.zero_grad(set_to_none=True)
    # Losses: left to right, right to left, teacher, context; words: read, taught, with a context to predict.
    sums = torch.zeros(7, dtype=torch.float64, device=device)
    for window in range(settings.windows_per_update):
        batch = move(next(batches), device)
        samples = None
        if settings.num_samples:
            generator = torch.Generator().manual_seed(_mix_seed(settings.seed, update, 0) + window)
            samples = NegativeSamples(settings.num_samples, num_words, generator).to(device)
        with _syncing(state.objective, window + 1 == settings.windows_per_update):
            result: WindowLoss = state.objective(batch, state.bilm_state, samples)
            loss = _weigh(result, batch, settings)
            (loss * settings.num_steps / settings.windows_per_update).backward()  # type: ignore[no-untyped-call]
        state.bilm_state, state.position = result.state, batch.position
        lesson, context = batch.lesson, batch.context
        losses = torch.stack([result.left_to_right, result.right_to_left, result.teacher, result.context])
        num_read = batch.num_words + (0 if lesson is None else lesson.predicting.shape[1])
        num_taught = 0 if lesson is None else lesson.places.shape[1]
        num_context = 0 if context is None else len(context.vectors)
        sums += torch.cat([losses.detach(), loss.new_tensor([num_read, num_taught, num_context])])
    if dist.is_initialized():
        dist.all_reduce(sums)
    combine_sparse(state.parameters, averages=settings.average_every == 1)
    norm = clip_gradients(state.parameters, settings.optimizer.clip_norm)
    left_to_right, right_to_left, taught_loss, context_loss, words, taught_words, context_words = sums.tolist()
    cosines = {}
    if taught_words:
        cosines["teacher_cosine"] = 1 - taught_loss / taught_words
    if context_words:
        cosines["context_cosine"] = 1 - context_loss / context_words
    if not math.isfinite(left_to_right + right_to_left + norm):
        raise DivergedError(
            f"The loss or its gradient is not a number at update {update + 1}; the last checkpoint is good, so "
            "start a new run from it with --init, or from scratch, with a lower optimizer.learning_rate."
        )
    state.optimizer.step()
    state.num_updates += 1
    if settings.average_every > 1 and is_averaging(state.num_updates, settings, num_updates):
        average_weights(state.parameters, state.optimizer)
    state.num_words += int(words)
    return StepReport(
        update=state.num_updates,
        left_to_right_loss=left_to_right / words,
        right_to_left_loss=right_to_left / words,
        gradient_norm=norm,
        learning_rate=state.optimizer.param_groups[0]["lr"],
        num_words=state.num_words,
        cosines=cosines,
    )


def is_averaging(update: int, settings: TrainSettings, num_updates: int) -> bool:
    """Return whether all processes have the same weights after an update, so that they can be saved."""
    return update % settings.average_every == 0 or update == num_updates


def _weigh(result: WindowLoss, batch: LMBatch, settings: TrainSettings) -> torch.Tensor:
    """Return the loss of a window in this process; gradients are averaged over processes.

    Windows have the same number of words in all processes; the words of lessons and those with a context to
    predict are counted over all processes.
    """
    lesson, teacher, num_processes = batch.lesson, settings.teacher, count_processes()
    num_words = batch.num_words + (0 if lesson is None else lesson.num_predicted / num_processes)
    loss = (result.left_to_right + result.right_to_left) / (2 * num_words)
    share = 0.0 if lesson is None else num_processes / lesson.num_words
    if teacher is not None:
        loss = loss + teacher.weight * share * result.teacher
        loss = loss + teacher.relations * share * result.relations
    if settings.context is not None:
        num_targets = torch.tensor(0 if batch.context is None else len(batch.context.vectors), device=loss.device)
        if dist.is_initialized():
            dist.all_reduce(num_targets)
        loss = loss + settings.context.weight * num_processes / max(1, int(num_targets)) * result.context
    return loss


def _syncing(objective: nn.Module, is_last: bool) -> contextlib.AbstractContextManager[None]:
    """Average gradients over processes once per update, after its last window."""
    if isinstance(objective, DistributedDataParallel) and not is_last:
        return objective.no_sync()
    return contextlib.nullcontext()


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients down if their common norm is above `max_norm`; return the norm before."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    values = [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]
    norm = float(nn.utils.get_total_norm(values))
    if norm > max_norm:
        torch._foreach_mul_(values, max_norm / norm)
    return norm


def build_optimizer(parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Build Adagrad as in bilm-tf, or AdamW."""
    if settings.kind == "adagrad":
        # Adagrad builds sparse tensors from valid rows; unless this is stated, torch warns about the check.
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
        return torch.optim.Adagrad(
            parameters, lr=settings.learning_rate, initial_accumulator_value=INITIAL_ACCUMULATOR
        )
    return torch.optim.AdamW(
        parameters, lr=settings.learning_rate, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
    )


def rate_at(update: int, num_updates: int, settings: OptimizerSettings) -> float:
    """Return the learning rate of an update, counted from 0, in a run of num_updates."""
    if update < settings.warmup_steps:
        return settings.learning_rate * (update + 1) / settings.warmup_steps
    rate = settings.learning_rate * min(1.0, (num_updates - update) / (settings.cooldown_steps + 1))
    if settings.decay == "none":
        return rate
    done = (update - settings.warmup_steps) / max(1, num_updates - settings.warmup_steps)
    share = FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * (1 + math.cos(math.pi * min(1.0, done))) / 2
    return rate * share


def _mix_seed(*numbers: int) -> int:
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**62)
    return mixed
