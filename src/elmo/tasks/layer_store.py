"""The layers of a frozen biLM for sentences it has read, on disk: each distinct sentence is computed once.

A store is a folder per model and precision with two growing files: `layers.f16`, the values as float16 in the
order sentence, word, layer (and context vector); and `index.bin`, one record per sentence. A record is written
after its values are on the disk, so a killed process leaves at most values that nothing refers to. A third file
marks the folder as a store: nothing without that mark is ever removed to make room.
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
from elmo.checkpoint.download import cache_folder
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.model import Elmo
from elmo.tasks.settings import DEFAULT_CACHE_BYTES

logger = logging.getLogger(__name__)

Values = npt.NDArray[np.float16]
OLD_CACHE_VARIABLE = "ELMO_LAYER_CACHE"
WORDS_AT_ONCE = 16_384
_RECORD = np.dtype([("hash", "S20"), ("offset", "<u8"), ("num_words", "<u4")])
_VALUES, _INDEX, _LOCK, _MARK = "layers.f16", "index.bin", ".lock", "elmo-layer-store"
_NAME = re.compile(r"[0-9a-f]{32}-\w+")


def default_cache_folder() -> Path:
    """Return `layers` in the cache of the package, or the folder that the variable of earlier versions names."""
    if given := os.environ.get(OLD_CACHE_VARIABLE):
        logger.warning("%s is deprecated; set ELMO_CACHE, whose folder layers/ is used.", OLD_CACHE_VARIABLE)
        return Path(given).expanduser()
    return cache_folder() / "layers"


def read_layers(model: Elmo, sentences: Sequence[Sequence[str]], *, with_context: bool) -> list[Values]:
    """Return all layers of each sentence as (T, (L+1)·2D), or (T, (L+1)·2D + d) with the context vectors."""
    words = [list(each) for each in sentences]
    layers = model.embed(words, layers="all") if words else []
    found = [array.transpose(1, 0, 2).reshape(-1, model.num_layers * model.dim) for array in layers]
    if with_context and words:
        contexts = model.context_vectors(words)
        found = [np.concatenate(pair, axis=1) for pair in zip(found, contexts, strict=True)]
    return [array.astype(np.float16) for array in found]


class LayerStore:
    """The layers of sentences by one model; what is missing is computed and stored."""

    def __init__(
        self,
        model: Elmo,
        folder: Path | None = None,
        *,
        max_bytes: int = DEFAULT_CACHE_BYTES,
        with_context: bool = False,
        model_fingerprint: str | None = None,
    ) -> None:
        """`folder` holds the stores of all models, at most `max_bytes` together."""
        self._model, self._with_context = model, with_context
        self._root = default_cache_folder() if folder is None else folder
        self._max_bytes = max_bytes
        self._num_values = model.num_layers * model.dim
        name = f"{(model_fingerprint or fingerprint(model))[:32]}-{model.precision}"
        if with_context:
            assert model.context is not None
            self._num_values += model.context.dim
            name += f"_{(context_fingerprint(model) or '')[:16]}"
        self._folder = self._root / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / _MARK).touch()
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
            fits = self._make_room(total * self._num_values * 2)
            for part in _cut(sorted(wanted, key=lambda item: len(item[1]))):
                self._compute(part, keep=fits)
                done += sum(len(words) for _, words in part)
                on_words(done, total)
            self._open()

    def __getitem__(self, words: Sequence[str]) -> Values:
        """Return the values (T, V) of a sentence that was added, as read_layers orders them."""
        key = _key(words)
        if key in self._uncached:
            return self._uncached[key]
        offset, num_words = self._places[key]
        return self._values[offset : offset + num_words * self._num_values].reshape(num_words, self._num_values)

    def _open(self) -> None:
        """Read the index and map the values; records whose values are incomplete are left out."""
        values, index = self._folder / _VALUES, self._folder / _INDEX
        if not values.exists() or not index.exists() or values.stat().st_size < 2:
            self._places = {}
            return
        content = index.read_bytes()
        records = np.frombuffer(content[: len(content) // _RECORD.itemsize * _RECORD.itemsize], dtype=_RECORD)
        self._values = np.memmap(values, dtype=np.float16, mode="r", shape=(values.stat().st_size // 2,))
        ends = records["offset"] + records["num_words"].astype(np.uint64) * np.uint64(self._num_values)
        # Bytes fields lose trailing zeros, so keys are compared without theirs.
        self._places = {
            key: (offset, num_words) for key, offset, num_words in records[ends <= len(self._values)].tolist()
        }
        os.utime(self._folder, (time.time(), time.time()))

    def _compute(self, sentences: list[tuple[bytes, list[str]]], *, keep: bool) -> None:
        arrays = read_layers(self._model, [words for _, words in sentences], with_context=self._with_context)
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
            for record, (key, words), array in zip(records, sentences, arrays, strict=True):
                file.write(array.tobytes())
                record["hash"], record["offset"], record["num_words"] = key, offset, len(words)
                offset += array.size
        sync(values)
        if index.exists() and index.stat().st_size % _RECORD.itemsize:
            os.truncate(index, index.stat().st_size // _RECORD.itemsize * _RECORD.itemsize)
        with index.open("ab") as file:
            file.write(records.tobytes())
        sync(index)

    def _make_room(self, size: int) -> bool:
        """Remove the stores used longest ago until `size` more bytes fit; False if they cannot."""
        others = [folder for folder in self._root.iterdir() if _is_store(folder) and folder != self._folder]
        others.sort(key=lambda folder: folder.stat().st_mtime)
        own = _store_bytes(self._folder)
        total = own + sum(map(_store_bytes, others))
        while others and total + size > self._max_bytes and own + size <= self._max_bytes:
            oldest = others.pop(0)
            with contextlib.suppress(Timeout), FileLock(oldest / _LOCK, timeout=0):  # not while it is being filled
                total -= _store_bytes(oldest)
                _remove_store(oldest)
        if total + size <= self._max_bytes:
            return True
        logger.warning(
            "%.1f GB of layers do not fit the cache of %.1f GB in %s, so they are kept in memory and computed "
            "again next time; choose a larger --cache-gigabytes.",
            size / 1e9, self._max_bytes / 1e9, self._root,
        )  # fmt: skip
        return False


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
    """Return whether a LayerStore made a folder, by its name and its mark."""
    return bool(_NAME.fullmatch(folder.name)) and not folder.is_symlink() and (folder / _MARK).is_file()


def _remove_store(folder: Path) -> None:
    """Remove the files of a store, and its folder if nobody has put anything else there."""
    for name in (_INDEX, _VALUES, _MARK, _LOCK):  # the mark late: a store removed in part is still a store
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _store_bytes(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in (_VALUES, _INDEX) if (folder / name).is_file())
