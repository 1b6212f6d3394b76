"""A model at rest: its configuration, weights, word lists and context layer, whatever format they came from.

Every format is read into a Checkpoint and written from one; networks and indexers are built from it here.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from elmo.build import build_bilm
from elmo.config import ContextConfig, ModelConfig
from elmo.errors import CheckpointError, first_line
from elmo.nn.bilm import BiLM
from elmo.text.batch import Indexer
from elmo.text.characters import DictionaryAlphabet, Utf8Alphabet
from elmo.text.units import Tokenization
from elmo.text.vocabulary import Vocabulary

Weights = Mapping[str, Tensor]
MAX_NAMES_IN_MESSAGE = 5
MAX_DEPTH = 1000
_LEVELS = 127  # of 8-bit numbers, on each side of zero
_PREDICTS_ONLY = ("softmax.", "right_to_left_softmax.")


@dataclass(frozen=True)
class ContextLayer:
    """A table of static word vectors, which the network neither reads nor is changed by; checked on creation.

    inference/context.py computes with it. Tensors, for V words, d dimensions and D of layer 0: vectors (V, d) int8
    with scales (V,); weights (V,), low for frequent words; unknown_map (D, d) and unknown_bias (d,), from layer 0
    to an estimated vector. For sentences: sentence_scale (d,), word_mean (D,), and the common directions
    sentence_components (k, d) and word_components (k, D).
    """

    config: ContextConfig
    words: tuple[str, ...]
    tensors: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        faults = [f"{name} is missing" for name in _expected(self.config, 0) if name not in self.tensors]
        faults = faults or self._list_misfits()
        faults = faults or [
            f"{name} holds NaN or infinite values" for name, each in self.tensors.items() if not _is_finite(each)
        ]
        if faults:
            raise CheckpointError(
                f"The tensors of the context layer do not fit its settings: {'; '.join(faults)}."
            )
        if len(self.words) != self.config.num_words or len(set(self.words)) != len(self.words):
            raise CheckpointError(
                f"The context layer lists {len(set(self.words)):,} distinct words, but has "
                f"{self.config.num_words:,} rows; save or copy the model again."
            )

    @property
    def word_dim(self) -> int:
        """D: the dimensions of the layer 0 it was made for."""
        shape = self.tensors["unknown_map"].shape
        return int(shape[0]) if shape else 0

    def content_hash(self) -> str:
        """Return the SHA-256 of settings, words and tensors, as config.json records it."""
        settings = repr((sorted(self.config.to_dict().items()), self.words))
        return content_hash(self.tensors, settings.encode())

    def _list_misfits(self) -> list[str]:
        expected = _expected(self.config, self.word_dim)
        faults = [f"{name} is not part of it" for name in self.tensors if name not in expected]
        for name, (shape, dtype) in expected.items():
            tensor = self.tensors[name]
            if tuple(tensor.shape) != shape or tensor.dtype != dtype:
                faults.append(
                    f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, not {dtype} of shape {shape}"
                )
        return faults


def _expected(config: ContextConfig, word_dim: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    num_words, dim, num_components = config.num_words, config.dim, config.num_components
    shapes: dict[str, tuple[int, ...]] = {
        "scales": (num_words,),
        "weights": (num_words,),
        "unknown_map": (word_dim, dim),
        "unknown_bias": (dim,),
        "sentence_scale": (dim,),
        "sentence_components": (num_components, dim),
        "word_mean": (word_dim,),
        "word_components": (num_components, word_dim),
    }
    return {
        "vectors": ((num_words, dim), torch.int8),
        **{name: (shape, torch.float32) for name, shape in shapes.items()},
    }


def quantize(matrix: Tensor, *, smallest: float = torch.finfo(torch.float32).tiny) -> tuple[Tensor, Tensor]:
    """Return a matrix in 8 bits and the scale of each of its rows; `smallest` stands for the largest of zeros."""
    scales = matrix.abs().amax(dim=1).clamp_(min=smallest) / _LEVELS
    return (matrix / scales[:, None]).round().to(torch.int8), scales


@dataclass(frozen=True)
class Checkpoint:
    """Everything that is saved of a model, checked on creation: every weight present, of its shape, finite."""

    config: ModelConfig
    weights: Weights
    vocabulary: tuple[str, ...] | None = None  # word of each id, for the word embedding and the softmax
    characters: tuple[str, ...] | None = None  # character of each id, for a dictionary alphabet
    origin: Mapping[str, str] = field(default_factory=dict)  # where it came from: format, source
    word_counts: tuple[int, ...] | None = None  # of each word of the vocabulary in the training text
    card: str | None = None  # README.md: what the model is, and the license of its weights
    storage: str = "float32"  # how the weights were stored, see folder.py
    context: ContextLayer | None = None  # independent of the network
    aliases: Mapping[str, str] = field(default_factory=dict)  # units that the model reads as others

    def __post_init__(self) -> None:
        _check_weights(self.config, self.weights)
        _check_word_lists(self)
        if self.context is not None and self.context.word_dim != self.config.encoder.output_dim:
            raise CheckpointError(
                f"The context layer was made for a model with word vectors of {self.context.word_dim} dimensions, "
                f"but this one has {self.config.encoder.output_dim}; make one for it with elmo fuse."
            )

    def build(self) -> BiLM:
        """Build the network with these weights, for inference: no gradients."""
        with torch.device("meta"):
            bilm = build_bilm(self.config)
        bilm.load_state_dict(dict(self.weights), assign=True)
        return bilm.requires_grad_(False).eval()

    def indexer(self, *, literal_boundaries: bool = False) -> Indexer:
        """Return the indexer that turns words into this model's ids.

        With `literal_boundaries`, words of the text spelled like a boundary are one, as in the original programs.
        """
        config = self.config
        alphabet: DictionaryAlphabet | Utf8Alphabet | None = None
        if config.characters:
            if config.characters.alphabet == "utf-8":
                alphabet = Utf8Alphabet(config.characters.max_characters)
            else:
                alphabet = DictionaryAlphabet(self.characters or (), config.characters.max_characters)
        return Indexer(
            alphabet,
            self.make_vocabulary() if config.words else None,
            max_word_length=config.words.max_word_length if config.words else None,
            literal_boundaries=(config.begin_word, config.end_word) if literal_boundaries else None,
            tokenization=Tokenization(config.tokenization, self.aliases),
        )

    def make_vocabulary(self) -> Vocabulary | None:
        """Return the word list with its special words, if the model has one."""
        return None if self.vocabulary is None else name_words(self.vocabulary, self.config, self.word_counts)


def name_words(words: Sequence[str], config: ModelConfig, counts: Sequence[int] | None = None) -> Vocabulary:
    """Return a word list with the special words of a model."""
    special = {"begin": config.begin_word, "end": config.end_word, "unknown": config.unknown_word}
    return Vocabulary(words, **special, counts=counts)


class HasCheckpoint(Protocol):
    """A model, such as Elmo, that can return what would be saved of it."""

    def checkpoint(self) -> Checkpoint:
        """Return configuration, word lists and weights."""
        ...


def fingerprint(model: HasCheckpoint) -> str:
    """Return the hash of everything a model's vectors depend on: weights and word lists, without the softmax."""
    checkpoint = model.checkpoint()
    config = checkpoint.config.to_dict()
    config.pop("softmax", None)
    lists: list[object] = [checkpoint.characters, checkpoint.vocabulary if checkpoint.config.words else None]
    if checkpoint.aliases:
        lists.append(dict(checkpoint.aliases))
    digest = hashlib.sha256(json.dumps([config, lists], sort_keys=True, default=str).encode())
    for name, weight in sorted(checkpoint.weights.items()):
        if not name.startswith(_PREDICTS_ONLY):
            digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
            digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def context_fingerprint(model: HasCheckpoint) -> str | None:
    """Return the hash of a model's context layer, which "meaning" and weighted sentence vectors depend on."""
    layer = model.checkpoint().context
    return None if layer is None else layer.content_hash()


def content_hash(tensors: Weights, before: bytes = b"") -> str:
    """Return the SHA-256 of the bytes `before` and of tensors by name, shape, type and bytes, as files record it.

    `fingerprint` is the hash of what a model's vectors depend on, which is another one.
    """
    digest = hashlib.sha256(before)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def expected_shapes(config: ModelConfig) -> dict[str, torch.Size]:
    """Return the name and shape of every weight that a configuration needs."""
    depth = max(config.encoder.num_layers, config.characters.num_highways if config.characters else 0)
    if depth > MAX_DEPTH:  # building them one by one would take forever
        raise CheckpointError(
            f"The configuration has {depth} layers; no model has more than {MAX_DEPTH}, so it is damaged."
        )
    try:
        with torch.device("meta"):
            return {name: tensor.shape for name, tensor in build_bilm(config).state_dict().items()}
    except (RuntimeError, TypeError, OverflowError) as error:
        raise CheckpointError(
            f"The configuration has impossible sizes ({first_line(error)}); it is damaged."
        ) from error


def _check_weights(config: ModelConfig, weights: Weights) -> None:
    expected = expected_shapes(config)
    faults = [f"{name} is missing" for name in expected if name not in weights]
    faults += [f"{name} is not part of the model" for name in weights if name not in expected]
    faults += [
        f"{name} has shape {tuple(weights[name].shape)}, the configuration needs {tuple(shape)}"
        for name, shape in expected.items()
        if name in weights and weights[name].shape != shape
    ]
    if faults:
        raise CheckpointError(f"The weights do not fit the configuration: {list_some(faults)}.")
    other_types = [
        f"{name} is {tensor.dtype}" for name, tensor in weights.items() if tensor.dtype != torch.float32
    ]
    if other_types:
        raise CheckpointError(
            f"The weights must be torch.float32, but {list_some(other_types)}; convert them, or save the model "
            "as it was before quantization."
        )
    not_finite = [name for name, tensor in weights.items() if not _is_finite(tensor)]
    if not_finite:
        raise CheckpointError(
            f"The weights have NaN or infinite values in {list_some(not_finite)}; the file is damaged or its "
            "training had diverged, so use an earlier checkpoint or another copy."
        )


def _is_finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point():
        return True
    # The sum is fast and not finite if a value is not; the sum of huge values may overflow by itself.
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def _check_word_lists(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    num_words = {part.num_words for part in (config.words, config.softmax) if part}
    if checkpoint.vocabulary is not None:
        for expected in num_words - {len(checkpoint.vocabulary)}:
            raise CheckpointError(
                f"The vocabulary has {len(checkpoint.vocabulary)} words but the weights have {expected}; "
                "put the vocabulary file the model was trained with beside it."
            )
    if checkpoint.word_counts is not None and len(checkpoint.word_counts) != len(checkpoint.vocabulary or ()):
        raise CheckpointError(
            f"The model has {len(checkpoint.word_counts)} word counts for a vocabulary of "
            f"{len(checkpoint.vocabulary or ())} words; save or copy the model again."
        )
    if config.words:
        vocabulary = checkpoint.make_vocabulary()
        if vocabulary is None:
            raise CheckpointError("This model reads whole words, so it needs its vocabulary; none was found.")
        if missing := vocabulary.missing_special_words():
            raise CheckpointError(
                f"The vocabulary lacks {', '.join(missing)}, which a model that reads words needs."
            )
    if config.characters and config.characters.alphabet == "dictionary":
        characters = checkpoint.characters or ()
        missing = [name for name in DictionaryAlphabet.SPECIAL if name not in characters]
        if missing or len(characters) != config.characters.num_characters:
            raise CheckpointError(
                f"The list of characters has {len(characters)} entries and lacks {missing or 'none'} of the "
                f"special ones; {config.characters.num_characters} entries with all of them were expected."
            )


def list_some(phrases: list[str]) -> str:
    """Join phrases for a message, cut to the first few."""
    more = len(phrases) - MAX_NAMES_IN_MESSAGE
    return "; ".join(phrases[:MAX_NAMES_IN_MESSAGE]) + (f"; and {more} more" if more > 0 else "")
