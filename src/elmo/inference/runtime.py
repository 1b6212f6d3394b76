"""Run a model on a batch. Defines the interface Runtime, and CpuRuntime, which uses NumPy and the compiled library.

CpuRuntime runs LSTMs; elmo.device runs torch modules, on a GPU and for Transformer encoders. This module also chooses
the precision and keeps the state carried between batches. The letters of shapes are explained in elmo.text.batch.
"""

import importlib
import logging
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.location import cache_folder
from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import ConfigError
from elmo.extras import require
from elmo.files.durable import replace_file
from elmo.inference.encoder import BidirectionalEncoder
from elmo.inference.layers import LayerChoice, choose_layers, cosine
from elmo.inference.scoring import Softmaxes, open_softmaxes
from elmo.inference.words import DEFAULT_BYTES, WordCache, WordEncoder
from elmo.inference.workers import ForkSafeLock, Workers
from elmo.kernels.library import find_kernels, find_library
from elmo.kernels.lstm import LstmState
from elmo.text.batch import CharBatch, Indexer

logger = logging.getLogger(__name__)
Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
Weights = Mapping[str, Any]
ResultT = TypeVar("ResultT")
Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]
PRECISIONS = ("auto", "float32", "int8", "bfloat16")
MIN_MEAN_COSINE = 0.999  # between the int8 and the float32 vectors of words, in every layer

# The text on which "auto" compares int8 with float32: frequent and rare words, names, numbers, several scripts.
CHECK_SENTENCES = [
    ["I", "went", "to", "the", "bank", "to", "open", "an", "account", "."],
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "and", "watched", "the", "boats", "."],
    ["The", "committee", "'s", "report", ",", "published", "in", "1987", ",", "was", "widely", "criticised", "."],
    ["Dr.", "Alvarez", "moved", "from", "Buenos", "Aires", "to", "Reykjavik", "with", "3", "suitcases"],
    ["what", "is", "the", "fastest", "way", "to", "sort", "a", "list", "of", "numbers", "?"],
    ["NO", "!"],
    ["我", "用", "电", "脑", "写", "一", "封", "信", "。"],
    ["Der", "Zug", "nach", "München", "fährt", "um", "17:45", "Uhr", "ab", "."],
]


@dataclass(frozen=True)
class PrecisionChoice:
    """The precision to use, and the reason."""

    precision: Precision
    reason: str


def choose_precision(requested: str, *, check_int8: Callable[[], bool]) -> PrecisionChoice:
    """Choose the precision of LSTMs on a CPU; "auto" is int8 if it preserves the vectors, else float32.

    Without the compiled library, "auto" is float32, and `check_int8` is not called.
    """
    if requested == "bfloat16":
        logger.warning("bfloat16 requires a GPU; using float32 instead.")
        return PrecisionChoice("float32", "bfloat16 requires a GPU")
    if requested != "auto":
        return PrecisionChoice(cast(Precision, requested), "as requested")
    kernels = find_kernels()
    if kernels.library is None:
        return PrecisionChoice("float32", f"there are no compiled kernels: {kernels.reason}")
    if check_int8():
        return PrecisionChoice("int8", f"the mean cosine of int8 and float32 is at least {MIN_MEAN_COSINE}")
    logger.info("int8 would change the vectors of this model too much; using float32 instead.")
    return PrecisionChoice("float32", f"the mean cosine of int8 and float32 is below {MIN_MEAN_COSINE}")


def int8_preserves_vectors(checkpoint: Checkpoint, indexer: Indexer) -> bool:
    """Return whether int8 preserves the vectors of a model; the result is stored per model and machine."""
    name = f"{checkpoint.fingerprint()[:32]}-{find_kernels().reason}-{platform.machine()}.txt"
    path = cache_folder() / "precision" / name
    try:
        return path.read_text(encoding="utf-8") == "int8"
    except (OSError, ValueError):
        is_preserved = _compare_int8(checkpoint.config, checkpoint.weights, indexer)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, b"int8" if is_preserved else b"float32")
    except OSError as error:  # such as a read-only home folder; the next process checks again
        logger.debug("The result of comparing int8 with float32 could not be stored: %s", error)
    return is_preserved


def _compare_int8(config: ModelConfig, weights: Weights, indexer: Indexer) -> bool:
    """Return whether the mean cosine of int8 and float32 vectors reaches the minimum in every layer."""
    batch = indexer.batch(CHECK_SENTENCES)
    all_layers = choose_layers("all", config.encoder.num_layers + 1)
    exact, rounded = (
        CpuRuntime(config, weights, precision=precision, cache_bytes=0).embed(batch, all_layers)
        for precision in ("float32", "int8")
    )
    by_layer = np.asarray(cosine(exact, rounded)).mean(axis=0)
    return bool(by_layer.min() >= MIN_MEAN_COSINE)


class CarriedState:
    """The state of each row, kept between batches as in the original ELMo programs; one batch runs at a time.

    State objects must provide `num_rows` and the methods `rows` and `join`.
    """

    def __init__(self, zero_state: Callable[[int], Any]) -> None:
        self._zero_state = zero_state
        self._state: Any = None
        self._lock = ForkSafeLock()

    def reset(self) -> None:
        """Set the state to zero."""
        with self._lock:
            self._state = None

    def advance(self, num_rows: int, run: Callable[[Any], tuple[ResultT, Any]]) -> ResultT:
        """Call `run` with the state of the first `num_rows` rows, store the new state, and return the result.

        New rows start from zero; if the batch has fewer rows than before, the other rows keep their state.
        """
        with self._lock:
            zero = self._zero_state(num_rows)
            state = zero if self._state is None else self._state
            if state.num_rows < num_rows:
                state = state.join(zero.rows(slice(state.num_rows, None)))
            result, new_state = run(state.rows(slice(num_rows)))
            self._state = new_state.join(state.rows(slice(num_rows, None)))
            return result


class Runtime(ABC):
    """Runs one language model without gradients; thread-safe."""

    device: str  # such as "cpu"
    num_layers: int  # L + 1: the layers of each direction and the word vectors below them
    num_threads: int
    precision_choice: PrecisionChoice  # the precision of matrix multiplications, and the reason
    cache: WordCache  # context-free vectors of recent words
    _carried: CarriedState | None

    def __init__(self, weights: Weights, *, carry: bool) -> None:
        """With `carry`, each batch starts from the final state of the previous batch."""
        self._weights, self.carries_state = weights, carry

    @abstractmethod
    def encode_words(self, batch: CharBatch) -> Array:
        """Return the context-free vectors (U, D) of a batch's distinct tokens; no state is used or changed."""

    @abstractmethod
    def _forward(self, batch: CharBatch, choice: LayerChoice, *, skip_last: bool) -> Array:
        """Return (N, K, 2D) for all tokens; with `skip_last`, no direction reads its last token, a boundary."""

    @cached_property
    def softmaxes(self) -> Softmaxes | None:
        """The softmaxes of both directions, if the model has them."""
        return open_softmaxes(self._weights)

    def embed(self, batch: CharBatch, choice: LayerChoice) -> Array:
        """Return (N, K, 2D): K vectors per word and boundary; a word of several tokens gets their mean."""
        rows = self._forward(batch, choice, skip_last=False)
        return rows if batch.groups is None else batch.groups.average(rows)

    def predict(self, batch: CharBatch) -> tuple[Array, Array]:
        """Return the states (B, T-1, D) that predict the tokens of a batch, left to right and right to left.

        The last boundary is predicted but never fed in, so it does not affect the carried state.
        """
        rows = self._forward(batch, choose_layers("top", self.num_layers), skip_last=True)
        padded = pad_rows(rows[:, 0], batch.mask)
        dim = padded.shape[2] // 2
        return padded[:, :-1, :dim], padded[:, 1:, dim:]

    def reset_state(self) -> None:
        """Set the carried state to zero."""
        if self._carried is not None:
            self._carried.reset()


@dataclass(frozen=True)
class _PackedModel:
    """The weights, packed for a precision."""

    choice: PrecisionChoice
    words: WordEncoder
    encoder: BidirectionalEncoder


class CpuRuntime(Runtime):
    """Runs an LSTM language model on the CPU. The weights are packed when they are first needed."""

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
        check_int8: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(weights, carry=carry)
        self._config = config
        self._requested, self._check_int8 = precision, check_int8
        self._cache_bytes = cache_bytes
        self._workers = Workers(num_threads)
        self.num_threads = self._workers.num_threads
        self.num_layers = config.encoder.num_layers + 1
        self._library = find_library() if self.num_threads > 1 else None
        self._packed: _PackedModel | None = None
        self._prepare_lock = ForkSafeLock()
        self._carried = CarriedState(self._zero_state) if carry else None

    @property
    def precision_choice(self) -> PrecisionChoice:  # type: ignore[override]  # computed on first use
        """The precision of matrix multiplications, and the reason."""
        return self._prepare().choice

    @property
    def cache(self) -> WordCache:  # type: ignore[override]
        """The context-free vectors of recent words."""
        return self._prepare().words.cache

    def encode_words(self, batch: CharBatch) -> Array:
        """Return the context-free vectors (U, D) of a batch's distinct tokens; no state is used or changed."""
        return self._prepare().words.encode(batch)

    def _forward(self, batch: CharBatch, choice: LayerChoice, *, skip_last: bool) -> Array:
        if self._library is not None:
            self._library.wake_helper()  # the second thread; waking up overlaps with encoding the words
        packed = self._prepare()
        words, encoder = packed.words.encode(batch), packed.encoder
        if self._carried is None:
            return encoder.forward(words, batch, choice.matrix, skip_last=skip_last)

        def advance(state: LstmState) -> tuple[Array, LstmState]:
            return encoder.forward_from(state, words, batch, choice.matrix, skip_last=skip_last)

        return self._carried.advance(len(batch.order), advance)

    def _zero_state(self, num_rows: int) -> LstmState:
        return self._prepare().encoder.zero_state(num_rows)

    def _prepare(self) -> _PackedModel:
        """Pack the weights, once."""
        with self._prepare_lock:
            if self._packed is None:
                assert isinstance(self._config.encoder, EncoderConfig)  # elmo.device runs Transformers
                choice = choose_precision(self._requested, check_int8=self._check_int8 or (lambda: False))
                int8, weights, workers = choice.precision == "int8", self._weights, self._workers
                words = WordEncoder(self._config, weights, workers, int8=int8, cache_bytes=self._cache_bytes)
                encoder = BidirectionalEncoder(self._config.encoder, weights, workers, int8=int8)
                self._packed = _PackedModel(choice, words, encoder)
            return self._packed


def pad_rows(rows: Array, mask: npt.NDArray[np.bool_]) -> Array:
    """Pad rows (N, ...) to (B, T, ...), the shape of the mask (B, T), with zeros."""
    padded = np.zeros((*mask.shape, *rows.shape[1:]), dtype=np.float32)
    padded[mask] = rows
    return padded


def split_rows(rows: Array, lengths: Ids) -> list[Array]:
    """Cut rows (N, ...) into one array per sentence; `lengths` (B,) is the number of rows of each sentence."""
    ends = np.cumsum(lengths).tolist()
    return [rows[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def open_runtime(
    config: ModelConfig,
    weights: Weights,
    *,
    device: str = "cpu",
    precision: str = "float32",
    check_int8: Callable[[], bool] | None = None,
    **settings: Any,
) -> Runtime:
    """Return the runtime of a model on a device; `check_int8` decides for precision="auto".

    The other settings are common to all runtimes: carry, num_threads and cache_bytes.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision is {precision!r}; choose one of {', '.join(PRECISIONS)}.")
    if device == "auto":
        device = _find_best_device()
    if device == "cpu" and isinstance(config.encoder, EncoderConfig):
        return CpuRuntime(config, weights, precision=precision, check_int8=check_int8, **settings)
    require("torch", "torch", f"device={device!r}" if device != "cpu" else "A Transformer encoder")
    torch_runtimes = importlib.import_module("elmo.device")  # imported lazily: CPU inference does not need torch
    runtime: Runtime = torch_runtimes.TorchRuntime(config, weights, device=device, precision=precision, **settings)
    return runtime


def _find_best_device() -> str:
    """Return the fastest device of this machine, or the CPU if torch is not installed."""
    try:
        return str(importlib.import_module("elmo.device").open_device("auto"))
    except ModuleNotFoundError:
        return "cpu"
