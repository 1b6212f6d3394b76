"""A model at rest: its configuration, weights and word lists, whatever format they came from.

Every format is read into a Checkpoint and written from one; networks and indexers are built from it here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from elmo.build import build_bilm
from elmo.checkpoint.context_layer import ContextLayer
from elmo.config import ModelConfig
from elmo.errors import CheckpointError, first_line
from elmo.nn.bilm import BiLM
from elmo.text.batch import Indexer
from elmo.text.characters import DictionaryAlphabet, Utf8Alphabet
from elmo.text.units import Tokenization
from elmo.text.vocabulary import Vocabulary

Weights = Mapping[str, Tensor]
MAX_NAMES_IN_MESSAGE = 5
MAX_DEPTH = 1000


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
        if self.context is not None:
            self.context.check_word_dim(self.config.encoder.output_dim)

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
        spelled = (config.begin_word, config.end_word)
        if config.characters:
            if config.characters.alphabet == "utf-8":
                alphabet = Utf8Alphabet(config.characters.max_characters)
            else:
                alphabet = DictionaryAlphabet(self.characters or (), config.characters.max_characters)
        return Indexer(
            alphabet,
            self.make_vocabulary() if config.words else None,
            max_word_length=config.words.max_word_length if config.words else None,
            literal_boundaries=spelled if literal_boundaries else None,
            tokenization=Tokenization(config.tokenization, self.aliases),
        )

    def make_vocabulary(self) -> Vocabulary | None:
        """Return the word list with its special words, if the model has one."""
        if self.vocabulary is None:
            return None
        config = self.config
        return Vocabulary(
            self.vocabulary,
            begin=config.begin_word,
            end=config.end_word,
            unknown=config.unknown_word,
            counts=self.word_counts,
        )


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
