"""A teacher's vectors of the sentences of a prepared corpus, computed once and kept on disk, memory-mapped.

A folder holds the sentences as word ids of the corpus, the teacher's vector of each sentence and, if asked for, of
each word, in float16. Sentences come in groups of neighbours, in random order. An interrupted computation resumes.
"""

import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.errors import ConfigError
from elmo.files.durable import replace_file
from elmo.pretrain.teacher import Teacher

GROUP = 4  # neighbouring sentences that stay together, so that a batch has related ones
_SENTENCES_AT_ONCE = 4096  # encoded by the teacher between two records of the progress
_DESCRIPTION, _IDS, _OFFSETS, _SENTENCES, _WORDS = (
    "cache.json", "ids.npy", "offsets.npy", "sentences.npy", "words.npy",
)  # fmt: skip

Ids = npt.NDArray[np.int64]
Half = npt.NDArray[np.float16]


@dataclass(frozen=True)
class TeacherCache:
    """Sentences with the vectors of a teacher, each of length 1; zeros where the teacher has none."""

    ids: npt.NDArray[np.uint32]  # (N,) words of all sentences, ids of the corpus
    offsets: Ids  # (S + 1,) of each sentence in them
    sentences: Half  # (S, E)
    words: Half | None  # (N, E)

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def dim(self) -> int:
        """E, the dimension of the teacher."""
        return int(self.sentences.shape[1])

    def sentence(self, number: int) -> Ids:
        """Return the word ids of a sentence."""
        return self.ids[self.offsets[number] : self.offsets[number + 1]].astype(np.int64)


def build_cache(
    folder: Path,
    corpus: PreparedCorpus,
    teacher: Teacher,
    *,
    num_sentences: int,
    max_words: int,
    with_words: bool,
    seed: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> TeacherCache:
    """Open the cache in a folder, after computing what is missing of it."""
    description: dict[str, Any] = {
        "teacher": teacher.name,
        "corpus": hash_corpus(corpus),
        "num_sentences": num_sentences,
        "max_words": max_words,
        "with_words": with_words,
        "seed": seed,
    }
    path = folder / _DESCRIPTION
    if path.exists():
        recorded = json.loads(path.read_bytes())
        if {name: recorded.get(name) for name in description} != description:
            raise ConfigError(
                f"{folder} has the vectors of another teacher, corpus or setting; choose another teacher.cache, "
                "or delete that folder."
            )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        ids, offsets = _choose(corpus, num_sentences, max_words, seed)
        np.save(folder / _IDS, ids)
        np.save(folder / _OFFSETS, offsets)
        recorded = {**description, "done": 0}
        replace_file(path, json.dumps(recorded).encode())
    ids, offsets = np.load(folder / _IDS, mmap_mode="r"), np.load(folder / _OFFSETS)
    total = len(offsets) - 1
    if recorded["done"] < total:
        sentences = _open_array(folder / _SENTENCES, (total, teacher.dim))
        words = _open_array(folder / _WORDS, (len(ids), teacher.dim)) if with_words else None
        for start in range(recorded["done"], total, _SENTENCES_AT_ONCE):
            stop = min(start + _SENTENCES_AT_ONCE, total)
            texts = [corpus.words(ids[offsets[row] : offsets[row + 1]]) for row in range(start, stop)]
            answer = teacher.encode(texts)
            sentences[start:stop] = answer.sentences.numpy()
            if words is not None:
                words[offsets[start] : offsets[stop]] = answer.words.numpy()
                words.flush()
            sentences.flush()
            replace_file(path, json.dumps({**description, "done": stop}).encode())
            on_progress(stop, total)
    return TeacherCache(
        ids,
        offsets,
        np.load(folder / _SENTENCES, mmap_mode="r"),
        np.load(folder / _WORDS, mmap_mode="r") if with_words else None,
    )


def hash_corpus(corpus: PreparedCorpus) -> str:
    """Return the hash of a corpus's content; its manifest has the hash of every file."""
    content = {name: corpus.manifest[name] for name in ("counts", "files", "shards")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _choose(
    corpus: PreparedCorpus, num_sentences: int, max_words: int, seed: int
) -> tuple[npt.NDArray[np.uint32], Ids]:
    """Draw groups of neighbouring sentences; return their ids and where each sentence starts in them."""
    shards = [corpus.shard(number) for number in range(corpus.num_shards)]
    starts = [np.append(np.flatnonzero(shard == BOS_ID), len(shard)) for shard in shards]
    groups = [(number, first) for number, marks in enumerate(starts) for first in range(0, len(marks) - 1, GROUP)]
    order = np.random.default_rng(seed).permutation(len(groups))
    if num_sentences:
        order = order[: -(-num_sentences // GROUP)]
    chosen: list[npt.NDArray[np.uint32]] = []
    for place in order.tolist():
        number, first = groups[place]
        marks = starts[number][first : first + GROUP + 1].tolist()
        for start, end in itertools.pairwise(marks):
            if end - start > 1:
                chosen.append(shards[number][start + 1 : min(end, start + 1 + max_words)])
    if not chosen:
        raise ConfigError(f"{corpus.folder} has no sentence for a teacher; choose another teacher.corpus.")
    offsets = np.cumsum([0, *map(len, chosen)], dtype=np.int64)
    return np.concatenate(chosen), offsets


def _open_array(path: Path, shape: tuple[int, int]) -> np.memmap[Any, np.dtype[np.float16]]:
    if path.exists():
        return np.lib.format.open_memmap(path, mode="r+")
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
