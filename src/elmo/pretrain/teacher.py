"""A frozen Hugging Face encoder (extra `distill`): sentences of words -> vectors of words and of sentences.

The vectors of a prepared corpus are computed once and stored in a folder, memory-mapped: the sentences as word ids, in
groups of neighbors in random order, and the vectors as float16. An interrupted computation resumes.
"""

import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.location import read_json
from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.errors import ConfigError, first_line
from elmo.extras import require
from elmo.files.durable import replace_file
from elmo.fusion.static_vectors import StaticVectors
from elmo.inference.context import normalize
from elmo.pretrain.settings import TeacherSettings

MAX_PIECES = 512  # subword tokens in one sentence
PIECES_AT_ONCE = 512  # in one batch; larger batches do not fit the caches of a CPU and are slower
GROUP = 4  # neighboring sentences that stay together, so that a batch has related ones
_SENTENCES_AT_ONCE = 4096  # encoded before the progress is recorded
_DESCRIPTION, _IDS, _OFFSETS = "cache.json", "ids.npy", "offsets.npy"
_SENTENCES, _WORDS = "sentences.npy", "words.npy"

Ids = npt.NDArray[np.int64]
Half = npt.NDArray[np.float16]


@dataclass(frozen=True)
class TeacherVectors:
    """A teacher's vectors of sentences, of length 1, or 0 where it has none."""

    words: Tensor  # (N, E), the mean over the pieces of each word, sentence by sentence
    sentences: Tensor  # (S, E), the mean over all pieces, including special ones, as in sentence-transformers


class Teacher:
    """A frozen encoder."""

    def __init__(
        self, name: str, *, precision: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        """Raise ConfigError if transformers is missing or `name` is not an encoder with word boundaries."""
        self.name, self._device = name, torch.device(device)
        network, self._tokenizer, self._max_pieces = _load_encoder(name)
        self._network = network.to(self._device, precision)
        self._lock = threading.Lock()  # tokenizers are not thread-safe
        self.dim = self._run(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.long)).shape[2]
        self._check()

    def encode(self, sentences: Sequence[Sequence[str]]) -> TeacherVectors:
        """Encode sentences of words, in batches of similar length; words beyond the maximum length have no vector."""
        lengths = [len(words) for words in sentences]
        words = torch.zeros(sum(lengths), self.dim)
        pooled = torch.zeros(len(sentences), self.dim)
        with self._lock:
            encoding = self._tokenizer(
                [list(words) for words in sentences],
                is_split_into_words=True, truncation=True, max_length=self._max_pieces,
            )  # fmt: skip
        starts = np.cumsum([0, *lengths]).tolist()
        pieces: list[list[int]] = encoding["input_ids"]
        order = sorted(range(len(sentences)), key=lambda row: len(pieces[row]))
        while order:
            size = 1
            while size < len(order) and (size + 1) * len(pieces[order[size]]) <= PIECES_AT_ONCE:
                size += 1
            rows, order = order[:size], order[size:]
            ids = _pad([pieces[row] for row in rows], 0)
            mask = _pad([[1] * len(pieces[row]) for row in rows], 0)
            owners = [[-1 if word is None else starts[row] + word for word in encoding.word_ids(row)] for row in rows]
            owner = _pad(owners, -1)
            hidden = self._run(ids, mask)
            # A sum has the direction of the mean.
            words.index_add_(0, owner[owner >= 0], hidden[owner >= 0])
            pooled[rows] = (hidden * mask[..., None]).sum(dim=1)
        return TeacherVectors(F.normalize(words, dim=1), F.normalize(pooled, dim=1))

    def _run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the last hidden states (b, t, E) on the CPU."""
        with torch.inference_mode():
            output = self._network(input_ids=ids.to(self._device), attention_mask=mask.to(self._device))
        hidden: Tensor = output.last_hidden_state.float().cpu()
        return hidden

    def _check(self) -> None:
        """Raise ConfigError unless the vectors of words depend on the following words."""
        single, followed, *_ = self.encode([["the"], ["the", "river"]]).words
        if torch.linalg.vector_norm(single - followed) < 1e-4:
            raise ConfigError(
                f"The teacher {self.name} is a decoder: its vectors do not depend on the following words; choose an "
                "encoder, such as BERT."
            )


def _pad(rows: list[list[int]], value: int) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


@dataclass(frozen=True)
class TeacherCache:
    """Sentences with the vectors of a teacher, of length 1, or 0 where it has none."""

    ids: npt.NDArray[np.uint32]  # (N,) word ids in the corpus, sentence by sentence
    offsets: Ids  # (S + 1,) of the sentences in `ids`
    sentences: Half  # (S, E)
    words: Half | None  # (N, E)

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def dim(self) -> int:
        """E, the dimension of the teacher."""
        return int(self.sentences.shape[1])

    def sentence(self, index: int) -> Ids:
        """Return the word ids of a sentence."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]].astype(np.int64)


def build_cache(
    folder: Path, corpus: PreparedCorpus, teacher: Teacher, settings: TeacherSettings, *, seed: int
) -> TeacherCache:
    """Open the cache in a folder, after computing the missing vectors."""
    with_words = settings.words > 0
    description: dict[str, Any] = {
        "teacher": teacher.name, "corpus": corpus.content_hash(), "num_sentences": settings.num_sentences,
        "max_words": settings.max_words, "with_words": with_words, "seed": seed,
    }  # fmt: skip
    path = folder / _DESCRIPTION
    if path.exists():
        recorded = read_json(path)
        if {name: recorded.get(name) for name in description} != description:
            raise ConfigError(
                f"{folder} has the vectors of another teacher, corpus or setting; choose another teacher.cache, "
                "or delete that folder."
            )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        ids, offsets = _draw_sentences(corpus, settings.num_sentences, settings.max_words, seed)
        np.save(folder / _IDS, ids)
        np.save(folder / _OFFSETS, offsets)
        for name, length in ((_SENTENCES, len(offsets) - 1), (_WORDS, len(ids)))[: 1 + with_words]:
            np.lib.format.open_memmap(folder / name, mode="w+", dtype=np.float16, shape=(length, teacher.dim))
        recorded = {**description, "done": 0}
        replace_file(path, json.dumps(recorded).encode())
    ids, offsets = np.load(folder / _IDS, mmap_mode="r"), np.load(folder / _OFFSETS)
    total = len(offsets) - 1
    mode: Literal["r", "r+"] = "r+" if recorded["done"] < total else "r"
    sentences = np.load(folder / _SENTENCES, mmap_mode=mode)
    words = np.load(folder / _WORDS, mmap_mode=mode) if with_words else None
    for start in range(recorded["done"], total, _SENTENCES_AT_ONCE):
        stop = min(start + _SENTENCES_AT_ONCE, total)
        texts = [corpus.words(ids[offsets[row] : offsets[row + 1]]) for row in range(start, stop)]
        vectors = teacher.encode(texts)
        sentences[start:stop] = vectors.sentences.numpy()
        sentences.flush()
        if words is not None:
            words[offsets[start] : offsets[stop]] = vectors.words.numpy()
            words.flush()
        replace_file(path, json.dumps({**description, "done": stop}).encode())
    return TeacherCache(ids, offsets, sentences, words)


def _draw_sentences(
    corpus: PreparedCorpus, num_sentences: int, max_words: int, seed: int
) -> tuple[npt.NDArray[np.uint32], Ids]:
    """Draw groups of neighboring sentences; return their ids and the offset of each sentence."""
    shards = [corpus.shard(shard_index) for shard_index in range(corpus.num_shards)]
    starts = [np.append(np.flatnonzero(shard == BOS_ID), len(shard)) for shard in shards]
    groups = [
        (shard_index, first) for shard_index, bounds in enumerate(starts) for first in range(0, len(bounds) - 1, GROUP)
    ]
    order = np.random.default_rng(seed).permutation(len(groups))
    if num_sentences:
        order = order[: -(-num_sentences // GROUP)]
    chosen: list[npt.NDArray[np.uint32]] = []
    for group in order.tolist():
        shard_index, first = groups[group]
        for start, end in itertools.pairwise(starts[shard_index][first : first + GROUP + 1].tolist()):
            if end - start > 1:
                chosen.append(shards[shard_index][start + 1 : min(end, start + 1 + max_words)])
    if not chosen:
        raise ConfigError(f"{corpus.folder} has no sentence for a teacher; choose another teacher.corpus.")
    offsets = np.cumsum([0, *map(len, chosen)], dtype=np.int64)
    return np.concatenate(chosen), offsets


def join_static_vectors(static: StaticVectors, teacher: Teacher) -> StaticVectors:
    """Return static vectors of the same dimension that also use a teacher's vectors of single words.

    Both vectors are centered and of length 1; the result is the principal components of their concatenation. The
    teacher's vector is 0 for a word without pieces.
    """
    vectors = teacher.encode([[form] for form in static.forms]).words.numpy()
    is_known = (vectors != 0).sum(axis=1) > 0
    centered = np.where(is_known[:, None], vectors - vectors[is_known].mean(axis=0), 0)
    both = np.concatenate([static.vectors, normalize(centered)], axis=1)
    both -= both.mean(axis=0)
    _, directions = np.linalg.eigh(both.T @ both)  # eigenvalues in ascending order
    return replace(static, vectors=normalize(both @ directions[:, -static.vectors.shape[1] :]))


def _load_encoder(name: str) -> tuple[nn.Module, Any, int]:
    """Return the network, its fast tokenizer and the maximum number of pieces of a sentence."""
    transformers = require("transformers", "distill", "A teacher")
    logging = transformers.utils.logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # RoBERTa's tokenizers accept single words only with add_prefix_space.
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, use_fast=True, add_prefix_space=True)
        network, report = transformers.AutoModel.from_pretrained(name, output_loading_info=True)
    except Exception as error:  # transformers raises errors of many types
        raise ConfigError(
            f"The teacher {name} could not be opened ({first_line(error).rstrip('.:')}); give the folder or the name "
            "on the hub of an encoder that transformers' AutoModel and AutoTokenizer open."
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    missing = [key for key in report["missing_keys"] if "pooler" not in key]
    if missing:
        raise ConfigError(
            f"The teacher {name} has no weights for {', '.join(sorted(missing)[:3])} ({len(missing)} in all); its "
            "files do not belong to one model."
        )
    if not tokenizer.is_fast:
        raise ConfigError(
            f"The teacher {name} has a slow tokenizer ({type(tokenizer).__name__}), which does not report which "
            "word a piece belongs to; choose an encoder with a fast one (tokenizer.json)."
        )
    if network.config.is_encoder_decoder:
        network = network.get_encoder()
    config: Any = network.config
    positions = getattr(config, "max_position_embeddings", None) or MAX_PIECES
    # The positions of RoBERTa start after that of padding.
    max_pieces = min(MAX_PIECES, int(positions) - 2, int(tokenizer.model_max_length))
    return network.eval().requires_grad_(False), tokenizer, max_pieces
