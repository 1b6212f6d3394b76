"""A store of the layers of a frozen biLM on disk: each distinct sentence, or mean of a text, is computed once.

There is one SQLite file per model and precision. Values are float16, ordered by word and layer, with the context
vector last.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from elmo.checkpoint.location import cache_folder
from elmo.errors import InputError
from elmo.model import Elmo

Values = npt.NDArray[np.float16]
WORDS_AT_ONCE = 16_384


def default_cache_folder() -> Path:
    """Return the folder `layers` in the cache of the package."""
    return cache_folder() / "layers"


def compute_layers(model: Elmo, sentences: Sequence[Sequence[str]], *, pooled: bool = False) -> list[Values]:
    """Return all layers of each sentence as (T, (L+1)·2D).

    With `pooled`, return their mean over the words instead, (1, (L+1)·2D + d), followed by the mean of the context
    vectors if the model has them; only the means are kept in memory.
    """
    arrays: list[Values] = []
    for words in _chunk(map(list, sentences)):
        layers = [np.asarray(array, dtype=np.float32) for array in model.embed(words, layers="all")]
        values = [array.transpose(1, 0, 2).reshape(-1, model.num_layers * model.dim) for array in layers]
        if pooled and model.context is not None:
            contexts = map(np.asarray, model.context_vectors(words))
            values = [np.concatenate(pair, axis=1) for pair in zip(values, contexts, strict=True)]
        if pooled:
            values = [array.sum(axis=0, keepdims=True) / max(1, len(array)) for array in values]
        arrays += [array.astype(np.float16) for array in values]
    return arrays


class LayerStore:
    """The stored layers of one model; missing sentences are computed and added."""

    def __init__(self, model: Elmo, folder: Path | None = None, *, pooled: bool = False) -> None:
        """`folder` holds the stores of all models; see compute_layers for `pooled`."""
        self._model, self._pooled = model, pooled
        self._num_values = model.num_layers * model.dim
        name = f"{model.checkpoint().fingerprint()[:32]}-{model.precision}"
        if pooled and model.context is not None:
            self._num_values += model.context.dim
            name += f"_{(model.checkpoint().context_hash() or '')[:16]}"
        self._path = (folder or default_cache_folder()) / f"{name}{'_mean' * pooled}.sqlite"
        self._lock = FileLock(self._path.with_suffix(".lock"))
        with self._errors():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, timeout=60, check_same_thread=False)
            self._database.execute("CREATE TABLE IF NOT EXISTS layers (key BLOB PRIMARY KEY, layers BLOB)")

    def add(
        self, sentences: Iterable[Sequence[str]], on_words: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Compute the missing sentences; `on_words` is called with the number of words done and the total."""
        requested = {_key(words): list(words) for words in sentences}
        with self._errors(), self._lock:
            known = {key for (key,) in self._database.execute("SELECT key FROM layers")}
            missing = [words for key, words in requested.items() if key not in known]
            total, done = sum(map(len, missing)), 0
            for chunk in _chunk(sorted(missing, key=len)):
                layers = compute_layers(self._model, chunk, pooled=self._pooled)
                if not all(np.isfinite(array).all() for array in layers):
                    raise InputError("This model returns values beyond 65504, which float16 cannot hold.")
                rows = [(_key(words), array.tobytes()) for words, array in zip(chunk, layers, strict=True)]
                with self._database:
                    self._database.executemany("INSERT OR REPLACE INTO layers VALUES (?, ?)", rows)
                done += sum(map(len, chunk))
                on_words(done, total)

    def __getitem__(self, words: Sequence[str]) -> Values:
        """Return the values of an added sentence, (T, V), or (1, V) if pooled, in the order of compute_layers."""
        with self._errors():
            (content,) = self._database.execute("SELECT layers FROM layers WHERE key = ?", (_key(words),)).fetchone()
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


def _chunk(sentences: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Group sentences into chunks of about WORDS_AT_ONCE words."""
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
