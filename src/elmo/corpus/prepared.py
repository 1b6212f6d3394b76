"""A prepared corpus, opened: `manifest.json` says what must be there, everything else is memory-mapped."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.parts import SHARDS, starts_name, tokens_name
from elmo.corpus.words import BYTES, OFFSETS, TARGETS, TOTALS, WordTable
from elmo.errors import InputError
from elmo.files.work_folder import MANIFEST, FolderKind, damaged, find_damage, is_file_record
from elmo.text.characters import Ids
from elmo.text.vocabulary import parse_lines

VOCABULARY = "vocabulary.txt"
PARTS = "parts"
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
_FILES = (VOCABULARY, BYTES, OFFSETS, TOTALS, TARGETS)
OWN_NAMES = (SHARDS, *_FILES)


def _is_valid(manifest: dict[str, Any]) -> bool:
    """Return whether a manifest states all that is read of it, and no file is outside its folder."""
    counts, shards = manifest["counts"], manifest["shards"]
    return (
        all(type(counts[name]) is int and counts[name] >= 0 for name in _COUNTS)
        and all(type(shard["num_tokens"]) is int for shard in shards)
        and manifest["files"].keys() >= set(_FILES)
        and all(Path(name).name == name for name in manifest["files"])
        and all(is_file_record(record) for record in _list_files(manifest).values())
        and all(isinstance(manifest[name], dict) for name in ("settings", "made_with"))
        and all({"name", "format", "sha256"} <= file.keys() for file in manifest["inputs"])
    )


def _list_own(folder: Path) -> tuple[str, ...]:
    """Return the names of a corpus's files; only a manifest or unfinished work make them ours."""
    return OWN_NAMES if CORPUS.is_described(folder) or (folder / CORPUS.work).is_dir() else ()


def _has_progress(folder: Path) -> bool:
    # Finished parts, and files that would seem foreign without the work folder.
    parts = (folder / CORPUS.work / PARTS).glob("[0-9]*")
    return any(parts) or any((folder / name).exists() for name in OWN_NAMES)


CORPUS = FolderKind(
    noun="a prepared corpus",
    format="modern-elmo-corpus",
    version=1,
    since="0.1.0",
    work=".preparing",
    checksum="sha256",
    repair="prepare the corpus again with --force",
    is_valid=_is_valid,
    list_own=_list_own,
    has_progress=_has_progress,
)


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
        """Open a folder; InputError if it holds no complete corpus, or a file is missing or damaged.

        The checksum of a shard's text is verified when `read_block` first reads it, or with `verify` at once.
        """
        folder = Path(folder)
        manifest = CORPUS.read_manifest(folder)
        if manifest is None:
            raise InputError(
                f"{folder} holds no complete prepared corpus (there is no {MANIFEST}, which is written last); "
                "make one with elmo prepare."
            )
        large = {tokens_name(number) for number in range(len(manifest["shards"]))}
        faults = find_damage(folder, _list_files(manifest), checksums=lambda name: verify or name not in large)
        if faults:
            raise damaged(folder, faults, CORPUS.repair)
        return cls(folder, manifest)

    @property
    def num_words(self) -> int:
        """Number of words in the text, marks of sentences excluded."""
        return self._counts["num_words"]

    @property
    def num_sentences(self) -> int:
        """Number of sentences, each with one mark."""
        return self._counts["num_sentences"]

    @property
    def num_tokens(self) -> int:
        """Number of words and marks: the length of all shards together."""
        return self._counts["num_tokens"]

    @property
    def num_distinct_words(self) -> int:
        """Number of distinct words; the word table has one row more, for the mark."""
        return self._counts["num_distinct_words"]

    @property
    def num_shards(self) -> int:
        """Number of arrays of word ids."""
        return len(self.manifest["shards"])

    def word(self, number: int) -> str:
        """Return the word of an id; that of the mark is empty."""
        return self._table.words([number])[0]

    def words(self, ids: npt.ArrayLike) -> list[str]:
        """Return the words of some ids."""
        return self._table.words(ids)

    def character_ids(self, ids: npt.ArrayLike, max_characters: int = 50) -> Ids:
        """Return the character ids of some words as Utf8Alphabet has them, shape (n, max_characters).

        Those of the mark are the beginning of a sentence.
        """
        return self._table.character_ids(ids, max_characters)

    def shard(self, number: int) -> npt.NDArray[np.uint32]:
        """Return the word ids of a shard, memory-mapped, shape (its tokens,)."""
        if not 0 <= number < self.num_shards:
            raise IndexError(f"there are shards 0 to {self.num_shards - 1}, not {number}")
        return self._open_shard(number)

    def _map_shard(self, number: int) -> npt.NDArray[np.uint32]:
        shard: npt.NDArray[np.uint32] = np.load(self.folder / tokens_name(number), mmap_mode="r")
        return shard

    def read_block(self, shard: int, start: int, stop: int) -> npt.NDArray[np.uint32]:
        """Read the word ids of a block from the disk, shape (stop - start,).

        Unlike a memory map, this raises InputError instead of crashing the process if the file is truncated.
        """
        record = self.manifest["shards"][shard]
        path = self.folder / tokens_name(shard)
        if shard not in self._verified:
            if faults := find_damage(self.folder, {tokens_name(shard): record["tokens"]}, checksums=True):
                raise damaged(self.folder, faults, CORPUS.repair)
            self._verified.add(shard)
        header = record["tokens"]["num_bytes"] - _ID_BYTES * record["num_tokens"]
        try:
            with path.open("rb") as file:
                file.seek(header + _ID_BYTES * start)
                content = file.read(_ID_BYTES * (stop - start))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); {CORPUS.repair}.") from error
        ids = np.frombuffer(content[: len(content) // _ID_BYTES * _ID_BYTES], dtype="<u4")
        if len(ids) != stop - start or ids.max(initial=0) > self.num_distinct_words:
            raise InputError(f"{path} is truncated or has ids of no word; {CORPUS.repair}.")
        return ids

    def blocks(self) -> npt.NDArray[np.int64]:
        """Return the shard, start and stop of each block, shape (n, 3); all start at a mark and none is empty."""
        found = []
        for number, record in enumerate(self.manifest["shards"]):
            starts = np.load(self.folder / starts_name(number))
            stops = np.append(starts[1:], record["num_tokens"])
            found.append(np.stack([np.full_like(starts, number), starts, stops], axis=1))
        return np.concatenate(found)


def _list_files(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the records of all files by their names inside the folder."""
    files = dict(manifest["files"])
    for number, record in enumerate(manifest["shards"]):
        files[tokens_name(number)], files[starts_name(number)] = record["tokens"], record["starts"]
    return files
