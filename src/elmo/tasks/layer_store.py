"""The layers of a frozen biLM, on disk: each distinct sentence, or mean of a text, is computed once.

A store is an SQLite file per model and precision. The values are float16 in the order word, layer (then context
vector).
"""

import hashlib
import logging
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from elmo.checkpoint.checkpoint import context_fingerprint, fingerprint
from elmo.checkpoint.location import cache_folder
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.settings import DEFAULT_CACHE_BYTES

logger = logging.getLogger(__name__)

Values = npt.NDArray[np.float16]
WORDS_AT_ONCE = 16_384
_NAME = re.compile(r"[0-9a-f]{32}-\w+\.sqlite")


def default_cache_folder() -> Path:
    """Return `layers` in the cache of the package."""
    return cache_folder() / "layers"


def compute_layers(
    model: Elmo, sentences: Sequence[Sequence[str]], *, with_context: bool, pooled: bool = False
) -> list[Values]:
    """Return all layers of each sentence as (T, (L+1)·2D), or (T, (L+1)·2D + d) with the context vectors.

    `pooled`: their mean over the words instead, (1, …); memory does not grow with the texts.
    """
    arrays: list[Values] = []
    for words in _cut(map(list, sentences)):
        layers = [np.asarray(array, dtype=np.float32) for array in model.embed(words, layers="all")]
        values = [array.transpose(1, 0, 2).reshape(-1, model.num_layers * model.dim) for array in layers]
        if with_context:
            contexts = map(np.asarray, model.context_vectors(words))
            values = [np.concatenate(pair, axis=1) for pair in zip(values, contexts, strict=True)]
        if pooled:
            values = [array.sum(axis=0, keepdims=True) / max(1, len(array)) for array in values]
        arrays += [array.astype(np.float16) for array in values]
    return arrays


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
        self._root, self._max_bytes = folder or default_cache_folder(), max_bytes
        self._num_values = model.num_layers * model.dim
        name = f"{(model_fingerprint or fingerprint(model))[:32]}-{model.precision}"
        if with_context:
            assert model.context is not None
            self._num_values += model.context.dim
            name += f"_{(context_fingerprint(model) or '')[:16]}"
        self._path = self._root / f"{name}{'_mean' * pooled}.sqlite"
        self._uncached: dict[bytes, Values] = {}
        with self._errors():
            self._root.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, timeout=60, check_same_thread=False)
            self._database.execute("CREATE TABLE IF NOT EXISTS layers (key BLOB PRIMARY KEY, layers BLOB)")
            self._path.touch()  # the stores that were used longest ago are removed first

    def add(
        self, sentences: Iterable[Sequence[str]], on_words: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Compute the sentences that are missing; `on_words` gets the number of words done and of all."""
        wanted = {_key(words): list(words) for words in sentences}
        with self._errors(), _lock(self._path):
            known = {key for (key,) in self._database.execute("SELECT key FROM layers")}
            missing = {key: words for key, words in wanted.items() if key not in known and key not in self._uncached}
            total, done = sum(map(len, missing.values())), 0
            num_rows = len(missing) if self._pooled else total
            fits = not missing or self._make_room(num_rows * self._num_values * 2)
            for chunk in _cut(sorted(missing.values(), key=len)):
                layers = compute_layers(self._model, chunk, with_context=self._with_context, pooled=self._pooled)
                if not all(np.isfinite(array).all() for array in layers):
                    raise InputError("This model returns values beyond 65504, which float16 cannot hold.")
                keyed = zip(map(_key, chunk), layers, strict=True)
                if fits:
                    with self._database:
                        rows = ((key, array.tobytes()) for key, array in keyed)
                        self._database.executemany("INSERT OR REPLACE INTO layers VALUES (?, ?)", rows)
                else:
                    self._uncached.update(keyed)
                done += sum(map(len, chunk))
                on_words(done, total)

    def __getitem__(self, words: Sequence[str]) -> Values:
        """Return the values (T, V) of a sentence that was added, or (1, V), as compute_layers orders them."""
        key = _key(words)
        if key in self._uncached:
            return self._uncached[key]
        with self._errors():
            (content,) = self._database.execute("SELECT layers FROM layers WHERE key = ?", (key,)).fetchone()
        return np.frombuffer(content, dtype=np.float16).reshape(-1, self._num_values)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"The layer cache {self._path} cannot be used: {error}. Remove the file, or name another folder "
                "with --cache."
            ) from error

    def _make_room(self, size: int) -> bool:
        """Remove the stores used longest ago until `size` more bytes fit; False if they cannot."""
        stores = [path for path in self._root.iterdir() if _NAME.fullmatch(path.name) and path != self._path]
        free = self._max_bytes - size - self._path.stat().st_size
        total = sum(path.stat().st_size for path in stores)
        for path in sorted(stores, key=lambda path: path.stat().st_mtime):
            if free < 0 or total <= free:
                break
            total -= path.stat().st_size
            with suppress(Timeout), _lock(path, timeout=0):  # not while it is being filled
                path.unlink()
        if free < 0:
            logger.warning(
                "%.1f GB of layers do not fit the cache of %.1f GB in %s, so they are kept in memory and computed "
                "again next time; choose a larger --cache-gigabytes.",
                size / 1e9, self._max_bytes / 1e9, self._root,
            )  # fmt: skip
        return free >= 0


def _lock(path: Path, timeout: float = -1) -> FileLock:
    return FileLock(path.with_suffix(".lock"), timeout=timeout)


def _cut(sentences: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Cut into chunks of about WORDS_AT_ONCE words."""
    chunk: list[list[str]] = []
    num_words = 0
    for words in sentences:
        chunk.append(words)
        num_words += len(words) + 1
        if num_words >= WORDS_AT_ONCE:
            yield chunk
            chunk, num_words = [], 0
    if chunk:
        yield chunk


def _key(words: Sequence[str]) -> bytes:
    return hashlib.sha1(f"{len(words)}\0".encode() + "\0".join(words).encode("utf-8", "surrogatepass")).digest()
