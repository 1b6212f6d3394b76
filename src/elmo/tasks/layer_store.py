"""The layers of a frozen biLM, on disk: each distinct sentence, or pooled text, is computed once.

A store is a folder per model and precision with two growing files: `layers.f16`, the values as float16 in the
order sentence, word, layer (and context vector), or those of a whole text; and `index.bin`, one record per
sentence. A record is written after its values are on the disk, so a killed process leaves at most values that
nothing refers to. A third file marks the folder as a store: nothing without it is ever removed to make room.
"""

import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.checkpoint.location import cache_folder
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.model import Elmo
from elmo.tasks.settings import DEFAULT_CACHE_BYTES

logger = logging.getLogger(__name__)

Values = npt.NDArray[np.float16]
WORDS_AT_ONCE = 16_384
_RECORD = np.dtype([("hash", "S20"), ("offset", "<u8"), ("num_rows", "<u4")])
_VALUES, _INDEX, _LOCK, _MARKER = "layers.f16", "index.bin", ".lock", "elmo-layer-store"
_NAME = re.compile(r"[0-9a-f]{32}-\w+")


def default_cache_folder() -> Path:
    """Return `layers` in the cache of the package."""
    return cache_folder() / "layers"


def compute_layers(
    model: Elmo, sentences: Sequence[Sequence[str]], *, with_context: bool, pooled: bool = False
) -> list[Values]:
    """Return all layers of each sentence as (T, (L+1)·2D), or (T, (L+1)·2D + d) with the context vectors.

    `pooled`: their mean and maximum over the words instead, as (1, 2·…); memory does not grow with the texts.
    """
    arrays: list[Values] = []
    for chunk in _cut([(b"", list(words)) for words in sentences]):
        words = [sentence for _, sentence in chunk]
        layers = [np.asarray(array, dtype=np.float32) for array in model.embed(words, layers="all")]
        values = [array.transpose(1, 0, 2).reshape(-1, model.num_layers * model.dim) for array in layers]
        if with_context:
            contexts = map(np.asarray, model.context_vectors(words))
            values = [np.concatenate(pair, axis=1) for pair in zip(values, contexts, strict=True)]
        arrays += [(_pool(array) if pooled else array).astype(np.float16) for array in values]
    return arrays


def _pool(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not len(values):
        return np.zeros((1, 2 * values.shape[1]), dtype=np.float32)
    return np.concatenate([values.mean(axis=0), values.max(axis=0)])[None]


class LayerStore:
    """The layers of sentences by one model; what is missing is computed and stored."""

    def __init__(
        self,
        model: Elmo,
        folder: Path | None = None,
        *,
        max_bytes: int = DEFAULT_CACHE_BYTES,
        with_context: bool = False,
        pooled: bool = False,
        model_fingerprint: str | None = None,
    ) -> None:
        """`folder` holds the stores of all models, at most `max_bytes` together; `pooled` is of compute_layers."""
        self._model, self._with_context, self._pooled = model, with_context, pooled
        self._root = default_cache_folder() if folder is None else folder
        self._max_bytes = max_bytes
        self._num_values = model.num_layers * model.dim
        name = f"{(model_fingerprint or fingerprint(model))[:32]}-{model.precision}"
        if with_context:
            assert model.context is not None
            self._num_values += model.context.dim
            name += f"_{(context_fingerprint(model) or '')[:16]}"
        if pooled:
            self._num_values, name = 2 * self._num_values, f"{name}_pooled"
        self._folder = self._root / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / _MARKER).touch()
        except OSError as error:
            raise InputError(f"The layer cache {self._folder} cannot be created: {error.strerror}.") from error
        self._lock = FileLock(self._folder / _LOCK)
        self._places: dict[bytes, tuple[int, int]] = {}
        self._values: Values = np.zeros(0, dtype=np.float16)
        self._uncached: dict[bytes, Values] = {}
        self._open()

    def add(
        self, sentences: Iterable[Sequence[str]], on_words: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Compute the sentences that are missing; `on_words` gets the number of words done and of all."""
        missing: dict[bytes, list[str]] = {}
        for words in sentences:
            key = _key(words)
            if key not in self._places and key not in self._uncached:
                missing[key] = list(words)
        if not missing:
            return
        with self._lock:
            self._open()  # another process may have computed some in the meantime
            wanted = [(key, words) for key, words in missing.items() if key not in self._places]
            total, done = sum(len(words) for _, words in wanted), 0
            num_rows = len(wanted) if self._pooled else total
            fits = self._make_room(num_rows * self._num_values * 2)
            for chunk in _cut(sorted(wanted, key=lambda item: len(item[1]))):
                self._compute(chunk, keep=fits)
                done += sum(len(words) for _, words in chunk)
                on_words(done, total)
            self._open()

    def __getitem__(self, words: Sequence[str]) -> Values:
        """Return the values (T, V) of a sentence that was added, or (1, V), as compute_layers orders them."""
        key = _key(words)
        if key in self._uncached:
            return self._uncached[key]
        offset, num_rows = self._places[key]
        return self._values[offset : offset + num_rows * self._num_values].reshape(num_rows, self._num_values)

    def _open(self) -> None:
        """Read the index and map the values; records whose values are incomplete are left out."""
        values, index = self._folder / _VALUES, self._folder / _INDEX
        if not values.exists() or not index.exists() or values.stat().st_size < 2:
            self._places = {}
            return
        content = index.read_bytes()
        records = np.frombuffer(content[: len(content) // _RECORD.itemsize * _RECORD.itemsize], dtype=_RECORD)
        self._values = np.memmap(values, dtype=np.float16, mode="r", shape=(values.stat().st_size // 2,))
        ends = records["offset"] + records["num_rows"].astype(np.uint64) * np.uint64(self._num_values)
        # Bytes fields lose trailing zeros, so keys are compared without theirs.
        self._places = {
            key: (offset, num_rows) for key, offset, num_rows in records[ends <= len(self._values)].tolist()
        }
        os.utime(self._folder, (time.time(), time.time()))

    def _compute(self, sentences: list[tuple[bytes, list[str]]], *, keep: bool) -> None:
        texts = [words for _, words in sentences]
        arrays = compute_layers(self._model, texts, with_context=self._with_context, pooled=self._pooled)
        if not all(np.isfinite(array).all() for array in arrays):
            raise InputError(
                "This model returns values beyond 65504, which float16 cannot hold; they cannot be cached."
            )
        if not keep:
            self._uncached.update({key: array for (key, _), array in zip(sentences, arrays, strict=True)})
            return
        values, index = self._folder / _VALUES, self._folder / _INDEX
        records = np.zeros(len(sentences), dtype=_RECORD)
        with values.open("ab") as file:
            file.write(b"\0" * (-file.tell() % 2))  # skip half a value that a killed process left
            offset = file.tell() // 2
            for record, (key, _), array in zip(records, sentences, arrays, strict=True):
                file.write(array.tobytes())
                record["hash"], record["offset"], record["num_rows"] = key, offset, len(array)
                offset += array.size
        sync(values)
        if index.exists() and index.stat().st_size % _RECORD.itemsize:
            os.truncate(index, index.stat().st_size // _RECORD.itemsize * _RECORD.itemsize)
        with index.open("ab") as file:
            file.write(records.tobytes())
        sync(index)

    def _make_room(self, size: int) -> bool:
        """Remove the stores used longest ago until `size` more bytes fit; False if they cannot."""
        stores = sorted(filter(_is_store, self._root.iterdir()), key=lambda folder: folder.stat().st_mtime)
        others = [folder for folder in stores if folder != self._folder]
        if _store_bytes(self._folder) + size > self._max_bytes:
            others = []  # removing them would not help
        while (total := sum(map(_store_bytes, [self._folder, *others])) + size) > self._max_bytes and others:
            with (
                contextlib.suppress(Timeout),
                FileLock(others[0] / _LOCK, timeout=0),
            ):  # not while it is being filled
                _remove_store(others[0])
            others.pop(0)
        if total > self._max_bytes:
            logger.warning(
                "%.1f GB of layers do not fit the cache of %.1f GB in %s, so they are kept in memory and computed "
                "again next time; choose a larger --cache-gigabytes.",
                size / 1e9, self._max_bytes / 1e9, self._root,
            )  # fmt: skip
        return total <= self._max_bytes


def _cut(sentences: list[tuple[bytes, list[str]]]) -> Iterator[list[tuple[bytes, list[str]]]]:
    """Cut into chunks of about WORDS_AT_ONCE words."""
    chunk: list[tuple[bytes, list[str]]] = []
    num_words = 0
    for item in sentences:
        chunk.append(item)
        num_words += len(item[1]) + 1
        if num_words >= WORDS_AT_ONCE:
            yield chunk
            chunk, num_words = [], 0
    if chunk:
        yield chunk


def _key(words: Sequence[str]) -> bytes:
    digest = hashlib.sha1("\0".join(words).encode("utf-8", "surrogatepass") + str(len(words)).encode())
    return digest.digest().rstrip(b"\0")


def _is_store(folder: Path) -> bool:
    """Return whether a LayerStore made a folder, by its name and its marker."""
    return bool(_NAME.fullmatch(folder.name)) and not folder.is_symlink() and (folder / _MARKER).is_file()


def _remove_store(folder: Path) -> None:
    """Remove the files of a store, and its folder if nobody has put anything else there."""
    for name in (_INDEX, _VALUES, _MARKER, _LOCK):  # the marker late: a store removed in part is still a store
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _store_bytes(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in (_VALUES, _INDEX) if (folder / name).is_file())
