"""All layers of sentences a frozen biLM has read, on disk: each distinct sentence is computed once.

A store is a folder for each model and precision with two growing files: `layers.f16`, the values as float16 in
the order sentence, word, layer; and `index.bin`, one record a sentence. An index record is written after its
values are on the disk, so a killed process leaves at most values that nobody refers to. A third file marks the
folder as a store: nothing without that mark is ever removed to make room.
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

from elmo.checkpoint.download import cache_folder
from elmo.checkpoint.fingerprint import fingerprint as content_hash
from elmo.errors import InputError
from elmo.files.durable import sync
from elmo.model import Elmo

logger = logging.getLogger(__name__)

Layers = npt.NDArray[np.float16]
OLD_CACHE_VARIABLE = "ELMO_LAYER_CACHE"
DEFAULT_CACHE_BYTES = 20 * 2**30
WORDS_AT_ONCE = 16_384
_RECORD = np.dtype([("hash", "S20"), ("offset", "<u8"), ("num_words", "<u4")])
_VALUES, _INDEX, _LOCK, _MARK = "layers.f16", "index.bin", ".lock", "elmo-layer-store"
_NAME = re.compile(r"[0-9a-f]{32}-\w+")


def default_cache_folder() -> Path:
    """Return where layers are kept unless the caller says otherwise: `layers` in the cache of the package.

    The variable of earlier versions is honoured for one more release.
    """
    if given := os.environ.get(OLD_CACHE_VARIABLE):
        logger.warning("%s is deprecated; set ELMO_CACHE, whose folder layers/ is used.", OLD_CACHE_VARIABLE)
        return Path(given).expanduser()
    return cache_folder() / "layers"


class LayerStore:
    """The layers of sentences by one model; what is not there yet is computed and kept."""

    def __init__(self, model: Elmo, folder: Path | None = None, *, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        """`folder` holds the stores of all models, at most `max_bytes` together."""
        self._model = model
        self._root = default_cache_folder() if folder is None else folder
        self._max_bytes = max_bytes
        self._row_values = model.num_layers * model.dim
        self._folder = self._root / f"{content_hash(model)[:32]}-{model.precision}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / _MARK).touch()
        except OSError as error:
            raise InputError(f"The layer cache {self._folder} cannot be made: {error.strerror}.") from error
        self._lock = FileLock(self._folder / _LOCK)
        self._places: dict[bytes, tuple[int, int]] = {}
        self._values: npt.NDArray[np.float16] = np.zeros(0, dtype=np.float16)
        self._uncached: dict[bytes, Layers] = {}
        self._open()

    def add(self, sentences: Iterable[Sequence[str]], advance: Callable[[int], None] = lambda _: None) -> None:
        """Compute the sentences that are not there yet; `advance` is told how many words were done."""
        missing: dict[bytes, list[str]] = {}
        for words in sentences:
            key = _key(words)
            if key not in self._places and key not in self._uncached:
                missing[key] = list(words)
        if not missing:
            return
        with self._lock:
            self._open()  # another process may have computed some meanwhile
            wanted = [(key, words) for key, words in missing.items() if key not in self._places]
            size = sum(len(words) for _, words in wanted) * self._row_values * 2
            fits = self._make_room(size)
            for part in _cut(sorted(wanted, key=lambda item: len(item[1]))):
                self._compute(part, keep=fits)
                advance(sum(len(words) for _, words in part))
            self._open()

    def num_missing_words(self, sentences: Iterable[Sequence[str]]) -> int:
        """Give how many words `add` would have to compute."""
        missing = {_key(words): len(words) for words in sentences}
        return sum(length for key, length in missing.items() if key not in self._places)

    def __getitem__(self, words: Sequence[str]) -> Layers:
        """Give the layers (T, L+1, 2D) of a sentence that was added."""
        key = _key(words)
        if key in self._uncached:
            return self._uncached[key]
        offset, num_words = self._places[key]
        flat = self._values[offset : offset + num_words * self._row_values]
        return flat.reshape(num_words, self._model.num_layers, self._model.dim)

    def _open(self) -> None:
        """Read the index and map the values; records whose values are not whole are left out."""
        values, index = self._folder / _VALUES, self._folder / _INDEX
        if not values.exists() or not index.exists() or values.stat().st_size < 2:
            self._places = {}
            return
        content = index.read_bytes()
        records = np.frombuffer(content[: len(content) // _RECORD.itemsize * _RECORD.itemsize], dtype=_RECORD)
        self._values = np.memmap(values, dtype=np.float16, mode="r", shape=(values.stat().st_size // 2,))
        ends = records["offset"] + records["num_words"].astype(np.uint64) * np.uint64(self._row_values)
        records = records[ends <= len(self._values)]
        # Bytes fields lose trailing zeros, so keys are compared without theirs.
        self._places = {
            key: (offset, length)
            for key, offset, length in zip(
                records["hash"].tolist(), records["offset"].tolist(), records["num_words"].tolist(), strict=True
            )
        }
        os.utime(self._folder, (time.time(), time.time()))

    def _compute(self, sentences: list[tuple[bytes, list[str]]], *, keep: bool) -> None:
        arrays = [
            np.ascontiguousarray(array.transpose(1, 0, 2)).astype(np.float16)
            for array in self._model.embed([words for _, words in sentences], layers="all")
        ]
        if not all(np.isfinite(array).all() for array in arrays):
            raise InputError(
                "This model gives values beyond 65504, which float16 cannot hold; they cannot be cached."
            )
        if not keep:
            self._uncached.update({key: array for (key, _), array in zip(sentences, arrays, strict=True)})
            return
        values, index = self._folder / _VALUES, self._folder / _INDEX
        records = np.zeros(len(sentences), dtype=_RECORD)
        with values.open("ab") as file:
            # What a killed process left unfinished is passed over, to the next whole value.
            file.write(b"\0" * (-file.tell() % 2))
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
            "anew another time; give a larger --cache-gigabytes.",
            size / 1e9, self._max_bytes / 1e9, self._root,
        )  # fmt: skip
        return False


def _cut(sentences: list[tuple[bytes, list[str]]]) -> Iterator[list[tuple[bytes, list[str]]]]:
    """Cut into parts of about WORDS_AT_ONCE words."""
    part: list[tuple[bytes, list[str]]] = []
    num_words = 0
    for item in sentences:
        part.append(item)
        num_words += len(item[1]) + 1
        if num_words >= WORDS_AT_ONCE:
            yield part
            part, num_words = [], 0
    if part:
        yield part


def _key(words: Sequence[str]) -> bytes:
    digest = hashlib.sha1("\0".join(words).encode("utf-8", "surrogatepass") + str(len(words)).encode())
    return digest.digest().rstrip(b"\0")


def _is_store(folder: Path) -> bool:
    """Return whether a folder is a store that a LayerStore made, by its name and its mark."""
    return bool(_NAME.fullmatch(folder.name)) and not folder.is_symlink() and (folder / _MARK).is_file()


def _remove_store(folder: Path) -> None:
    """Remove the files of a store, and its folder if nobody has put anything else there."""
    for name in (_INDEX, _VALUES, _MARK, _LOCK):  # the mark late: a store removed in part is still a store
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _store_bytes(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in (_VALUES, _INDEX) if (folder / name).is_file())
