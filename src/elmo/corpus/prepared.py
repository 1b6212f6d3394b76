"""A prepared corpus, opened: `manifest.json` says what must be there, everything else is memory-mapped.

Enters: a folder that prepare.py wrote. Leaves: word ids in shards and blocks, and the words behind them.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.shards import starts_name, tokens_name
from elmo.corpus.word_table import BYTES, OFFSETS, TARGETS, TOTALS, WordTable
from elmo.errors import InputError
from elmo.files.durable import sha256_of
from elmo.text.characters import Ids
from elmo.text.vocabulary import parse_lines

FORMAT, VERSION = "modern-elmo-corpus", 1
MANIFEST, VOCABULARY = "manifest.json", "vocabulary.txt"
MARK = 0  # the id before each sentence
_SHARDS_KEPT_OPEN = 64  # each is an open file
_ID_BYTES = 4
_COUNTS = (
    "num_words",
    "num_sentences",
    "num_tokens",
    "num_distinct_words",
    "num_unknown_words",
    "vocabulary_size",
)
_REQUIRED = {VOCABULARY, BYTES, OFFSETS, TOTALS, TARGETS}
_ADVICE = "it was changed or damaged, so prepare the corpus again with --force"


class PreparedCorpus:
    """Sentences as word ids. Id 0 is the mark before each sentence; ids 1 to num_distinct_words are words."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.vocabulary = tuple(parse_lines((folder / VOCABULARY).read_bytes()))
        self._counts: dict[str, int] = manifest["counts"]
        self._table = WordTable(folder)
        self.targets: npt.NDArray[np.uint32] = np.load(folder / TARGETS, mmap_mode="r")
        self.word_counts: npt.NDArray[np.int64] = np.load(folder / TOTALS, mmap_mode="r")
        self._open_shard = functools.lru_cache(_SHARDS_KEPT_OPEN)(self._map_shard)
        self._verified: set[int] = set()  # shards

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> "PreparedCorpus":
        """Open a folder. The sha256 of a shard's text is compared when `read_block` first reads it, or all now.

        Raises InputError if the folder holds no whole corpus, or a file is missing or damaged.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        if manifest is None:
            raise InputError(
                f"{folder} holds no whole prepared corpus (there is no {MANIFEST}, which is written last); "
                "make one with elmo prepare."
            )
        for name, record in _files(manifest):
            _check_file(folder / name, record, verify=verify or not _is_text(name))
        return cls(folder, manifest)

    @property
    def num_words(self) -> int:
        """Words of the text, the marks of sentences not counted."""
        return self._counts["num_words"]

    @property
    def num_sentences(self) -> int:
        """Sentences, each with one mark."""
        return self._counts["num_sentences"]

    @property
    def num_tokens(self) -> int:
        """Words and marks: the length of all shards together."""
        return self._counts["num_tokens"]

    @property
    def num_distinct_words(self) -> int:
        """Different words; the word table has one row more, for the mark."""
        return self._counts["num_distinct_words"]

    @property
    def num_shards(self) -> int:
        """How many arrays of word ids there are."""
        return len(self.manifest["shards"])

    def word(self, number: int) -> str:
        """Give the word of an id; the mark's is empty."""
        return self._table.words([number])[0]

    def words(self, ids: npt.ArrayLike) -> list[str]:
        """Give the words of some ids."""
        return self._table.words(ids)

    def character_ids(self, ids: npt.ArrayLike, max_characters: int = 50) -> Ids:
        """Give the characters of some ids as Utf8Alphabet has them, shape (n, max_characters).

        The mark's are those of the begin of a sentence.
        """
        return self._table.character_ids(ids, max_characters)

    def shard(self, number: int) -> npt.NDArray[np.uint32]:
        """Give the word ids of a shard, memory-mapped, shape (its tokens,)."""
        if not 0 <= number < self.num_shards:
            raise IndexError(f"there are shards 0 to {self.num_shards - 1}, not {number}")
        return self._open_shard(number)

    def _map_shard(self, number: int) -> npt.NDArray[np.uint32]:
        shard: npt.NDArray[np.uint32] = np.load(self.folder / tokens_name(number), mmap_mode="r")
        return shard

    def read_block(self, shard: int, start: int, stop: int) -> npt.NDArray[np.uint32]:
        """Give the word ids of a block, read from the disk now, shape (stop - start,).

        Unlike a map of the file this raises InputError, and does not end the process, if the file was cut off.
        """
        record = self.manifest["shards"][shard]
        path = self.folder / tokens_name(shard)
        if shard not in self._verified:
            _check_file(path, record["tokens"], verify=True)
            self._verified.add(shard)
        header = record["tokens"]["num_bytes"] - _ID_BYTES * record["num_tokens"]
        try:
            with path.open("rb") as file:
                file.seek(header + _ID_BYTES * start)
                content = file.read(_ID_BYTES * (stop - start))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); {_ADVICE}.") from error
        ids = np.frombuffer(content[: len(content) // _ID_BYTES * _ID_BYTES], dtype="<u4")
        if len(ids) != stop - start or ids.max(initial=0) > self.num_distinct_words:
            raise InputError(f"{path} is cut off or has ids of no word; {_ADVICE}.")
        return ids

    def blocks(self) -> npt.NDArray[np.int64]:
        """Give each block's shard, start and stop, shape (n, 3); all start at a mark and none is empty."""
        found = []
        for number, record in enumerate(self.manifest["shards"]):
            starts = np.load(self.folder / starts_name(number))
            stops = np.append(starts[1:], record["num_tokens"])
            found.append(np.stack([np.full_like(starts, number), starts, stops], axis=1))
        return np.concatenate(found)


def is_corpus(folder: Path) -> bool:
    """Return whether a folder has the manifest of a corpus, damaged or not."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a folder, or give None if it has none; InputError if it is not one of ours."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}); prepare the corpus again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path} does not describe a prepared corpus (its format is not {FORMAT!r}).")
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{path} has version {manifest.get('version')!r}, but this program reads version {VERSION}; prepare "
            "the corpus again."
        )
    if not _is_whole(manifest):
        raise InputError(f"{path} is damaged: something that every manifest states is missing; {_ADVICE}.")
    return manifest


def _is_whole(manifest: dict[str, Any]) -> bool:
    """Return whether all that is read of a manifest is there, and no file lies outside its folder."""
    try:
        counts, shards = manifest["counts"], manifest["shards"]
        return (
            all(type(counts[name]) is int and counts[name] >= 0 for name in _COUNTS)
            and all(type(shard["num_tokens"]) is int for shard in shards)
            and manifest["files"].keys() >= _REQUIRED
            and all(Path(name).name == name for name in manifest["files"])
            and all(
                type(record["num_bytes"]) is int and isinstance(record["sha256"], str)
                for _, record in _files(manifest)
            )
            and all(isinstance(manifest[name], dict) for name in ("settings", "made_with"))
            and all({"name", "format", "sha256"} <= file.keys() for file in manifest["inputs"])
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _files(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from manifest["files"].items()
    for number, record in enumerate(manifest["shards"]):
        yield tokens_name(number), record["tokens"]
        yield starts_name(number), record["starts"]


def _is_text(name: str) -> bool:
    """Whether a file is one of the large ones: a shard's word ids."""
    return name.startswith("shards/") and not name.endswith(".starts.npy")


def _check_file(path: Path, record: dict[str, Any], *, verify: bool) -> None:
    try:
        num_bytes = path.stat().st_size
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}), but {MANIFEST} lists it; {_ADVICE}."
        ) from error
    if num_bytes != record["num_bytes"]:
        raise InputError(
            f"{path} has {num_bytes:,} bytes, not the {record['num_bytes']:,} of {MANIFEST}; {_ADVICE}."
        )
    if verify and sha256_of(path) != record["sha256"]:
        raise InputError(f"{path} has not the sha256 that {MANIFEST} says; {_ADVICE}.")
