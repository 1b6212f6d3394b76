"""A packed batch -> layers of vectors: with gradients by the modules themselves, without them by the fast path.

The state carried between batches is kept here too.
"""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from elmo.inference.layers import LayerChoice, choose_layers
from elmo.inference.packed_lstm import can_pack, pack_encoder
from elmo.inference.precision import COMPILED_PRECISIONS, choose_precision, open_device
from elmo.inference.reading import BidirectionalReader
from elmo.inference.softmax import Softmaxes, open_softmaxes
from elmo.inference.word_encoder import DEFAULT_BYTES, WordCache, WordEncoder
from elmo.inference.workers import Workers
from elmo.kernels.library import find_library
from elmo.nn.bilm import BiLM, BiLMState, LayerStates
from elmo.text.batch import CharBatch

# The convolutions of this many words at once take about 200 MB in the largest official model.
WORDS_AT_ONCE = 1024
# (B, T-1, D) of each direction, left to right and right to left: what a softmax predicts words from.
PredictingStates: TypeAlias = tuple[Tensor, Tensor]
ResultT = TypeVar("ResultT")


def encode_words(bilm: BiLM, batch: CharBatch) -> Tensor:
    """Return the context-free vector at each position, (B, T, D)."""
    num_words = next(len(ids) for ids in (batch.char_ids, batch.word_ids) if ids is not None)
    parts = []
    for start in range(0, num_words, WORDS_AT_ONCE):
        window = slice(start, start + WORDS_AT_ONCE)
        parts.append(
            bilm.tokens(
                None if batch.char_ids is None else batch.char_ids[window],
                None if batch.word_ids is None else batch.word_ids[window],
            )
        )
    return torch.cat(parts)[batch.word_index]


def run_bilm(bilm: BiLM, batch: CharBatch, state: BiLMState | None = None) -> tuple[LayerStates, BiLMState]:
    """Return all layers of a batch, boundaries included, read from `state` or from zero; and where it ended."""
    batch = batch.to(next(bilm.parameters()).device)
    layers, end = bilm(encode_words(bilm, batch), batch.lengths, state)
    if batch.groups is not None:
        rows = batch.groups.average(layers.layers.permute(1, 2, 0, 3)[layers.mask])
        mask = batch.groups.mask.to(rows.device)
        layers = LayerStates(_pad(rows, mask).permute(2, 0, 1, 3), mask)
    return layers, end


class CarriedState:
    """The state the original programs keep from batch to batch, row by row; one batch at a time."""

    def __init__(self, bilm: BiLM) -> None:
        self._bilm = bilm
        self._state: BiLMState | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, BiLM]:
        # A copy or a pickle begins from zero: the state belongs to what this one read.
        return {"bilm": self._bilm}

    def __setstate__(self, arguments: dict[str, BiLM]) -> None:
        CarriedState.__init__(self, **arguments)

    def reset(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._state = None

    def run(self, batch: CharBatch) -> LayerStates:
        """Read a batch from where its rows stood; rows beyond those seen so far start from zero.

        A smaller batch uses and moves on the first rows and leaves the rest where they are. Gradients do not
        flow into earlier batches.
        """
        return self.advance(len(batch.order), lambda state: run_bilm(self._bilm, batch, state))

    def advance(self, num_rows: int, read: Callable[[BiLMState], tuple[ResultT, BiLMState]]) -> ResultT:
        """Let `read` take the first rows from where they stand to where it says they are then."""
        with self._lock:
            fresh = self._bilm.zero_state(num_rows)
            # The network may have been moved since.
            device = fresh.left_to_right.tensors[0].device
            kept = fresh if self._state is None else self._state.to(device)
            if kept.num_rows < num_rows:
                kept = kept.join(fresh.rows(slice(kept.num_rows, None)))
            result, moved = read(kept.rows(slice(num_rows)))
            with torch.inference_mode(False):  # what follows may be training
                self._state = moved.join(kept.rows(slice(num_rows, None))).detach().clone()
            return result


class Runtime:
    """Runs one biLM on one device without gradients; safe to call from several threads."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        precision: str = "float32",
        device: torch.device | str = "cpu",
        carry: bool = False,
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        opened = open_device(device)
        packs = can_pack(bilm.left_to_right, opened)
        num_weights = sum(weight.numel() for weight in bilm.left_to_right.parameters())
        choice = choose_precision(precision, can_pack=packs, num_weights=num_weights)
        self.precision, self.precision_reason = choice.precision, choice.reason
        compiled = packs and self.precision in COMPILED_PRECISIONS and find_library() is not None
        self.workers = Workers(num_threads, inline=opened.type != "cpu", one_core_each=compiled)
        self.bilm = bilm.to(opened)
        self.carried = CarriedState(self.bilm) if carry else None
        self._cache_bytes = cache_bytes
        self._weights = [module._parameters for module in self.bilm.modules() if module._parameters]
        self._prepared: _Prepared | None = None
        self._preparing = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        # What is prepared belongs to this process and these weights; a copy prepares its own.
        return {**self.__dict__, "_prepared": None, "_preparing": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _preparing=threading.Lock())

    @property
    def cache(self) -> WordCache:
        """The vectors of words that were seen before."""
        return self._prepare().words.cache

    @property
    def softmaxes(self) -> Softmaxes | None:
        """What predicts words, if the model has it: views of the weights as they are now."""
        return open_softmaxes({name: weight.detach().cpu() for name, weight in self.bilm.named_parameters()})

    def embed(self, batch: CharBatch, choice: LayerChoice) -> Tensor:
        """Return (N, K, 2D): K vectors of each word, sentence by sentence, boundaries included."""
        rows = self._read(batch, choice, batch.lengths)
        return rows if batch.groups is None else batch.groups.average(rows)

    @torch.inference_mode()
    def encode_words(self, batch: CharBatch) -> Tensor:
        """Return the context-free vectors (U, D) of a batch's distinct units; no state is read or moved on."""
        prepared = self._prepare()
        return prepared.words.encode(batch.to(prepared.device))

    def run(self, batch: CharBatch) -> LayerStates:
        """Return all layers of a batch, boundaries included, from the carried state or from zero."""
        rows = self.embed(batch, choose_layers("all", self.bilm.num_layers))
        mask = (batch.mask if batch.groups is None else batch.groups.mask).to(rows.device)
        return LayerStates(_pad(rows, mask).permute(2, 0, 1, 3), mask)

    def run_apart(self, batch: CharBatch) -> LayerStates:
        """Return the layers of run as plain tensors, which networks with gradients can take as their input."""
        states = self.run(batch)
        with torch.inference_mode(False):  # a tensor made in inference mode could not be saved for a gradient
            return LayerStates(states.layers.clone(), states.mask.clone())

    def predict(self, batch: CharBatch) -> PredictingStates:
        """Return the states that predict the units of a batch, from the carried state or from zero.

        The boundaries that the rows end at are only predicted, so a state carried on has not read them.
        """
        rows = self._read(batch, choose_layers("top", self.bilm.num_layers), batch.lengths - 1)
        ahead, back = _pad(rows, batch.mask.to(rows.device))[:, :, 0].chunk(2, dim=-1)
        return ahead[:, :-1], back[:, 1:]

    @torch.inference_mode()
    def _read(self, batch: CharBatch, choice: LayerChoice, num_read: Tensor) -> Tensor:
        if self.workers.num_workers > 1 and (library := find_library()) is not None:
            library.wake_helper()  # by the time it gets something to do, it is awake
        prepared = self._prepare()
        words = prepared.words.encode(batch if prepared.device.type == "cpu" else batch.to(prepared.device))
        read = prepared.reader.read
        if self.carried is None:
            return read(words, batch, choice, num_read, None, keep_state=False)[0]

        def advance(state: BiLMState) -> tuple[Tensor, BiLMState]:
            vectors, after = read(words, batch, choice, num_read, state)
            assert after is not None
            return vectors, after

        return self.carried.advance(len(batch.order), advance)

    def _prepare(self) -> "_Prepared":
        """Lay out the weights, or take what was laid out of them if they are still the same."""
        with self._preparing:
            held = [weight for named in self._weights for weight in named.values() if weight is not None]
            weights = [weight.data_ptr() for weight in held]
            weights += [weight._version for weight in held if not weight.is_inference()]
            if any(weight.requires_grad for weight in held):
                weights.append(_count_optimizer_steps()[0])
            if self._prepared is None or self._prepared.weights != weights:
                self._prepared = self._lay_out(weights)
            return self._prepared

    def _lay_out(self, weights: list[int]) -> "_Prepared":
        bilm = self.bilm
        make_words = functools.partial(
            WordEncoder, bilm.tokens, self.precision, self.workers, cache_bytes=self._cache_bytes
        )
        tasks: list[Callable[[], Any]] = [
            make_words,
            functools.partial(pack_encoder, bilm.left_to_right, self.precision),
            functools.partial(pack_encoder, bilm.right_to_left, self.precision),
        ]
        words, left_to_right, right_to_left = self.workers.run(tasks)
        reader = BidirectionalReader(left_to_right, right_to_left, bilm.zero_state, self.workers)
        return _Prepared(weights, words, reader, next(bilm.parameters()).device)


@dataclass(frozen=True)
class _Prepared:
    """What was made of the weights, and which ones they were: where they lie, and how often each was changed."""

    weights: list[int]
    words: WordEncoder
    reader: BidirectionalReader
    device: torch.device


@functools.cache
def _count_optimizer_steps() -> list[int]:
    """Return a running count of all optimizers' steps: fused ones change a weight but not its version."""
    count = [0]

    def add_one(*_: Any) -> None:
        count[0] += 1

    register_optimizer_step_post_hook(add_one)
    return count


def _pad(rows: Tensor, mask: Tensor) -> Tensor:
    """(N, ...) and (B, T) -> (B, T, ...), zero where padded."""
    padded = rows.new_zeros(*mask.shape, *rows.shape[1:])
    padded[mask] = rows
    return padded
