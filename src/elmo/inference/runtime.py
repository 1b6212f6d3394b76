"""A batch -> layers of vectors, on NumPy and the compiled library; and the seam behind which others may compute.

Elmo knows a Runtime only. CpuRuntime runs language models of LSTMs; elmo.device runs torch modules, on a GPU and
for Transformer encoders. The state carried between batches is kept here too.
"""

import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import ConfigError
from elmo.extras import install_command
from elmo.inference.encoder import BidirectionalEncoder, EncoderState
from elmo.inference.forks import follow_forks
from elmo.inference.layers import LayerChoice, choose_layers, cosine
from elmo.inference.precision import (
    CHECK_SENTENCES,
    LEAST_COSINE,
    Precision,
    PrecisionChoice,
    check_precision,
    choose_precision,
)
from elmo.inference.softmax import Softmaxes, open_softmaxes
from elmo.inference.word_cache import DEFAULT_BYTES, WordCache
from elmo.inference.word_encoder import WordEncoder
from elmo.inference.workers import Workers
from elmo.kernels.library import find_library
from elmo.text.batch import CharBatch, Indexer

Array = npt.NDArray[np.float32]
Weights = Mapping[str, Any]
ResultT = TypeVar("ResultT")
StateT = TypeVar("StateT", bound="RowState")


class Runtime(Protocol):
    """What runs one language model without gradients; safe to call from several threads."""

    @property
    def num_layers(self) -> int:
        """L + 1: the layers of each direction and the word vectors below them."""
        ...

    @property
    def precision(self) -> Precision:
        """The precision of matrix multiplications."""
        ...

    @property
    def precision_reason(self) -> str:
        """Why that precision was taken."""
        ...

    @property
    def num_threads(self) -> int:
        """How many threads compute."""
        ...

    @property
    def device(self) -> str:
        """Where it computes, such as "cpu"."""
        ...

    @property
    def carries_state(self) -> bool:
        """Whether a batch starts where the one before it ended."""
        ...

    @property
    def cache(self) -> WordCache:
        """The vectors of words that were seen before."""
        ...

    @property
    def softmaxes(self) -> Softmaxes | None:
        """What predicts words, if the model has it."""
        ...

    def embed(self, batch: CharBatch, choice: LayerChoice) -> Array:
        """Return (N, K, 2D): K vectors of each word, sentence by sentence, boundaries included."""
        ...

    def encode_words(self, batch: CharBatch) -> Array:
        """Return the context-free vectors (U, D) of a batch's distinct tokens; no state is used or changed."""
        ...

    def predict(self, batch: CharBatch) -> tuple[Array, Array]:
        """Return the states (B, T-1, D) that predict the tokens of a batch, left to right and right to left."""
        ...

    def reset_state(self) -> None:
        """Set the carried state to zero."""
        ...


def open_runtime(
    config: ModelConfig,
    weights: Weights,
    *,
    device: str = "cpu",
    precision: str = "float32",
    carry: bool = False,
    num_threads: int | None = None,
    cache_bytes: int = DEFAULT_BYTES,
    keeps_int8: Callable[[], bool] | None = None,
) -> Runtime:
    """Return what runs a model on a device; `keeps_int8` decides for precision="auto"."""
    check_precision(precision)
    if device == "auto":
        device = _find_best_device()
    if device == "cpu" and isinstance(config.encoder, EncoderConfig):
        return CpuRuntime(
            config, weights, precision=precision, carry=carry, num_threads=num_threads, cache_bytes=cache_bytes,
            keeps_int8=keeps_int8,
        )  # fmt: skip
    reason = f"device={device!r}" if device != "cpu" else "A Transformer encoder"
    runtime: Runtime = import_learning("elmo.device", reason).TorchRuntime(
        config, weights, device=device, precision=precision, carry=carry, num_threads=num_threads,
        cache_bytes=cache_bytes,
    )  # fmt: skip
    return runtime


def _find_best_device() -> str:
    """Return the fastest device of this machine; the CPU where torch is not installed."""
    try:
        return str(importlib.import_module("elmo.device").open_device("auto"))
    except ModuleNotFoundError:
        return "cpu"


def import_learning(name: str, purpose: str) -> Any:
    """Import a module that needs torch, by name: nothing of this half imports torch when it is imported."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "torch":
            raise
        raise ConfigError(f"{purpose} needs torch: {install_command('torch')}") from error


class RowState(Protocol):
    """A state of some rows."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        ...

    def rows(self: StateT, which: slice) -> StateT:
        """Return some rows."""
        ...

    def join(self: StateT, other: StateT) -> StateT:
        """Return the rows of both, these first."""
        ...


class CarriedState(Generic[StateT]):
    """The state the original programs keep from batch to batch, row by row; one batch at a time."""

    def __init__(self, zero_state: Callable[[int], StateT]) -> None:
        self._zero_state = zero_state
        self._state: StateT | None = None
        self._lock = threading.Lock()
        follow_forks(self)

    def after_fork(self) -> None:
        """Take a lock of this process."""
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._state = None

    def advance(self, num_rows: int, run: Callable[[StateT], tuple[ResultT, StateT]]) -> ResultT:
        """Let `run` take the first rows from where they stand to where it says they are then.

        Rows beyond those seen so far start from zero; a smaller batch leaves the rest where they are.
        """
        with self._lock:
            fresh = self._zero_state(num_rows)
            kept = fresh if self._state is None else self._state
            if kept.num_rows < num_rows:
                kept = kept.join(fresh.rows(slice(kept.num_rows, None)))
            result, moved = run(kept.rows(slice(num_rows)))
            self._state = moved.join(kept.rows(slice(num_rows, None)))
            return result


@dataclass(frozen=True)
class _Prepared:
    """The weights laid out for a precision."""

    choice: PrecisionChoice
    words: WordEncoder
    encoder: BidirectionalEncoder


class CpuRuntime:
    """Runs a language model of LSTMs on the CPU. The weights are laid out when they are first needed."""

    device = "cpu"

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        precision: str = "float32",
        carry: bool = False,
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
        keeps_int8: Callable[[], bool] | None = None,
    ) -> None:
        self._config, self._weights = config, weights
        self._requested, self._keeps_int8 = precision, keeps_int8
        self._cache_bytes = cache_bytes
        self._workers = Workers(num_threads)
        self.carries_state = carry
        self.num_layers = config.encoder.num_layers + 1
        self._start()

    def _start(self) -> None:
        library = find_library()
        self._library = library if library is not None and self._workers.num_threads > 1 else None
        self._prepared: _Prepared | None = None
        self._preparing = threading.Lock()
        self._carried = CarriedState(self._zero_state) if self.carries_state else None
        follow_forks(self)

    def __getstate__(self) -> dict[str, Any]:
        # What is prepared belongs to this process; a copy prepares its own, and starts from a zero state.
        made = ("_library", "_prepared", "_preparing", "_carried")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def after_fork(self) -> None:
        """Take a lock of this process."""
        self._preparing = threading.Lock()

    @property
    def precision(self) -> Precision:
        """The precision of matrix multiplications."""
        return self._prepare().choice.precision

    @property
    def precision_reason(self) -> str:
        """Why that precision was taken."""
        return self._prepare().choice.reason

    @property
    def num_threads(self) -> int:
        """How many threads compute."""
        return self._workers.num_threads

    @property
    def cache(self) -> WordCache:
        """The vectors of words that were seen before."""
        return self._prepare().words.cache

    @property
    def softmaxes(self) -> Softmaxes | None:
        """What predicts words, if the model has it."""
        return open_softmaxes(self._weights)

    def embed(self, batch: CharBatch, choice: LayerChoice) -> Array:
        """Return (N, K, 2D): K vectors of each word, sentence by sentence, boundaries included."""
        rows = self._forward(batch, choice, None)
        return rows if batch.groups is None else batch.groups.average(rows)

    def encode_words(self, batch: CharBatch) -> Array:
        """Return the context-free vectors (U, D) of a batch's distinct tokens; no state is used or changed."""
        return self._prepare().words.encode(batch)

    def predict(self, batch: CharBatch) -> tuple[Array, Array]:
        """Return the states (B, T-1, D) that predict the tokens of a batch, left to right and right to left.

        The boundaries that the rows end at are only predicted, so a state carried on has not read them.
        """
        rows = self._forward(batch, choose_layers("top", self.num_layers), batch.lengths - 1)
        return split_predictions(rows[:, 0], batch)

    def reset_state(self) -> None:
        """Set the carried state to zero."""
        if self._carried is not None:
            self._carried.reset()

    def _forward(self, batch: CharBatch, choice: LayerChoice, num_read: npt.NDArray[np.int64] | None) -> Array:
        if self._library is not None:
            self._library.wake_helper()  # by the time it gets something to do, it is awake
        prepared = self._prepare()
        words, encoder = prepared.words.encode(batch), prepared.encoder
        if self._carried is None:
            return encoder.forward(words, batch, choice.matrix, num_read=num_read)[0]

        def advance(state: EncoderState) -> tuple[Array, EncoderState]:
            vectors, after = encoder.forward(
                words, batch, choice.matrix, state, num_read=num_read, keep_state=True
            )
            return vectors, state if after is None else after

        return self._carried.advance(len(batch.order), advance)

    def _zero_state(self, num_rows: int) -> EncoderState:
        return self._prepare().encoder.zero_state(num_rows)

    def _prepare(self) -> _Prepared:
        """Lay out the weights, once."""
        prepared = self._prepared
        if prepared is None:
            with self._preparing:
                prepared = self._prepared
                if prepared is None:
                    prepared = self._prepared = self._lay_out()
        return prepared

    def _lay_out(self) -> _Prepared:
        config = self._config
        if not isinstance(config.encoder, EncoderConfig):
            raise ConfigError("A Transformer encoder runs on torch; open the model with Elmo.")
        choice = choose_precision(self._requested, keeps_int8=self._keeps_int8 or (lambda: False))
        int8 = choice.precision == "int8"
        words = WordEncoder(config, self._weights, self._workers, int8=int8, cache_bytes=self._cache_bytes)
        encoder = BidirectionalEncoder(config.encoder, self._weights, self._workers, int8=int8)
        return _Prepared(choice, words, encoder)


def split_predictions(rows: Array, batch: CharBatch) -> tuple[Array, Array]:
    """Return the states that predict tokens, (B, T-1, D) of each direction, from the top layer (N, 2D)."""
    padded = pad_rows(rows, batch.mask)
    dim = padded.shape[2] // 2
    return padded[:, :-1, :dim], padded[:, 1:, dim:]


def pad_rows(rows: Array, mask: npt.NDArray[np.bool_]) -> Array:
    """(N, ...) and (B, T) -> (B, T, ...), zero where padded."""
    padded = np.zeros((*mask.shape, *rows.shape[1:]), dtype=np.float32)
    padded[mask] = rows
    return padded


def keeps_int8(config: ModelConfig, weights: Weights, indexer: Indexer) -> bool:
    """Return whether 8 bits keep the vectors of a model: the mean cosine with float32 in its worst layer."""
    batch = indexer.batch(CHECK_SENTENCES)
    all_layers = choose_layers("all", config.encoder.num_layers + 1)
    exact, rounded = (
        CpuRuntime(config, weights, precision=precision, cache_bytes=0).embed(batch, all_layers)
        for precision in ("float32", "int8")
    )
    by_layer = np.asarray(cosine(exact, rounded)).mean(axis=0)
    return bool(by_layer.min() >= LEAST_COSINE)
