"""Open a prepared corpus: `manifest.json` lists the files that must be there; the others are memory-mapped."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.files.work_folder import MANIFEST, FolderKind
from elmo.text.characters import Ids, Utf8Alphabet
from elmo.text.vocabulary import parse_lines

SHARDS, VOCABULARY = "shards", "vocabulary.txt"
# UTF-8 words without separators, and their offsets, counts and vocabulary ids.
BYTES, OFFSETS, TOTALS, TARGETS = "words.bin", "word_offsets.npy", "word_counts.npy", "word_targets.npy"
BOS_ID = 0  # the id before each sentence
_FILES = (VOCABULARY, BYTES, OFFSETS, TOTALS, TARGETS)
_ID_BYTES = 4


def tokens_name(number: int) -> str:
    """Return the name, inside the corpus folder, of the file with a shard's word ids."""
    return f"{SHARDS}/{number:05d}.npy"


def starts_name(number: int) -> str:
    """Return the name, inside the corpus folder, of the file with a shard's block starts."""
    return f"{SHARDS}/{number:05d}.starts.npy"


def _list_files(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the records of all files by their names inside the folder."""
    files = {name: manifest["files"][name] for name in _FILES}
    for number, record in enumerate(manifest["shards"]):
        files[tokens_name(number)], files[starts_name(number)] = record["tokens"], record["starts"]
    return files


CORPUS = FolderKind(
    noun="a prepared corpus",
    format="modern-elmo-corpus",
    work=".preparing",
    repair="prepare the corpus again with --force",
    file_names=re.compile("|".join(map(re.escape, (SHARDS, *_FILES)))),
    list_files=_list_files,
)


class PreparedCorpus:
    """Sentences as word ids. BOS_ID precedes each sentence; ids 1 to num_distinct_words are words.

    The files are memory-mapped.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.vocabulary = tuple(parse_lines((folder / VOCABULARY).read_bytes()))
        counts: dict[str, int] = manifest["counts"]
        self.num_words = counts["num_words"]  # in the text, without BOS ids
        self.num_sentences = counts["num_sentences"]  # each with one BOS id
        self.num_tokens = counts["num_tokens"]  # words and BOS ids: the length of all shards together
        self.num_distinct_words = counts["num_distinct_words"]  # the word table has one more row, for BOS_ID
        self._bytes = np.memmap(folder / BYTES, dtype=np.uint8, mode="r").data
        self._offsets: npt.NDArray[np.int64] = np.load(folder / OFFSETS, mmap_mode="r")
        self.num_shards = len(manifest["shards"])
        self.targets: npt.NDArray[np.uint32] = np.load(folder / TARGETS, mmap_mode="r")
        self.word_counts: npt.NDArray[np.int64] = np.load(folder / TOTALS, mmap_mode="r")
        self._verified: set[int] = set()  # shards

    @classmethod
    def open(cls, folder: str | Path) -> "PreparedCorpus":
        """Open a folder; raise InputError if it holds no complete corpus, or a file is missing or damaged.

        The checksum of a shard's text is verified when `read_block` first reads it.
        """
        folder = Path(folder)
        manifest = CORPUS.read_manifest(folder)
        if manifest is None:
            raise InputError(
                f"{folder} holds no complete prepared corpus (there is no {MANIFEST}, which is written last); "
                "make one with elmo prepare."
            )
        shards = {tokens_name(number): record["tokens"] for number, record in enumerate(manifest["shards"])}
        CORPUS.verify(folder, shards, checksums=False)
        CORPUS.verify(folder, {name: record for name, record in _list_files(manifest).items() if name not in shards})
        return cls(folder, manifest)

    def content_hash(self) -> str:
        """Return the hash of the content, computed from the checksums in the manifest."""
        content = {name: self.manifest[name] for name in ("counts", "files", "shards")}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def shard(self, number: int) -> npt.NDArray[np.uint32]:
        """Return the memory-mapped word ids of a shard, shape (num_tokens,)."""
        shard: npt.NDArray[np.uint32] = np.load(self.folder / tokens_name(number), mmap_mode="r")
        return shard

    def read_block(self, shard: int, start: int, stop: int) -> npt.NDArray[np.uint32]:
        """Read the word ids of a block from disk, shape (stop - start,).

        Unlike a memory map, this raises InputError instead of crashing the process if the file is truncated.
        """
        record = self.manifest["shards"][shard]
        path = self.folder / tokens_name(shard)
        if shard not in self._verified:
            CORPUS.verify(self.folder, {tokens_name(shard): record["tokens"]})
            self._verified.add(shard)
        header = record["tokens"]["num_bytes"] - _ID_BYTES * record["num_tokens"]
        ids: npt.NDArray[np.uint32] = np.fromfile(path, "<u4", stop - start, offset=header + _ID_BYTES * start)
        if len(ids) != stop - start or ids.max(initial=0) > self.num_distinct_words:
            raise InputError(f"{path} is truncated, or has word ids that are out of range; {CORPUS.repair}.")
        return ids

    def blocks(self) -> npt.NDArray[np.int64]:
        """Return the shard, start and stop of each block, shape (n, 3); each starts at a BOS id, and none is empty."""
        blocks = []
        for number, record in enumerate(self.manifest["shards"]):
            starts = np.load(self.folder / starts_name(number))
            stops = np.append(starts[1:], record["num_tokens"])
            blocks.append(np.stack([np.full_like(starts, number), starts, stops], axis=1))
        return np.concatenate(blocks)

    def words(self, ids: npt.ArrayLike) -> list[str]:
        """Return the word of each id; the word of BOS_ID is empty."""
        rows = np.asarray(ids, dtype=np.int64)
        spans = zip(self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), strict=True)
        return [str(self._bytes[start:end], "utf-8") for start, end in spans]

    def character_ids(self, ids: npt.ArrayLike, max_characters: int = 50) -> Ids:
        """Return the Utf8Alphabet character ids of each word, (n, max_characters); BOS_ID is <S>."""
        alphabet = Utf8Alphabet(max_characters)
        character_ids = alphabet.encode(self.words(ids))
        character_ids[np.asarray(ids, dtype=np.int64) == BOS_ID] = alphabet.boundaries()[0]
        return character_ids
