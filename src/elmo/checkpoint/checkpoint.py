"""A model at rest: its configuration, weights, word lists and components, whatever format they came from.

Every format is read into a Checkpoint and written from one; elmo.nn.build makes torch modules of it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from elmo.checkpoint.components import ContextLayer, SentenceHead
from elmo.checkpoint.shapes import expected_shapes
from elmo.checkpoint.weights import (
    Storage,
    StoredWeights,
    Weights,
    check_finite,
    describe_type,
    list_differences,
    list_some,
    shapes_of,
)
from elmo.config import ModelConfig
from elmo.errors import CheckpointError
from elmo.text.batch import Indexer
from elmo.text.characters import Alphabet, DictionaryAlphabet, Utf8Alphabet
from elmo.text.units import Tokenization
from elmo.text.vocabulary import Vocabulary

SOFTMAX_PREFIXES = ("softmax.", "right_to_left_softmax.")  # of the weights that only predict words


@dataclass(frozen=True)
class Checkpoint:
    """Everything that is saved of a model, checked on creation: every weight present and of its shape.

    Weights in memory are checked for NaN, infinity and overflow now, StoredWeights each at its first use.
    """

    config: ModelConfig
    weights: Weights
    vocabulary: tuple[str, ...] | None = None  # word of each id, for the word embedding and the softmax
    characters: tuple[str, ...] | None = None  # character of each id, for a dictionary alphabet
    origin: Mapping[str, str] = field(default_factory=dict)  # where it came from: format, source
    word_counts: tuple[int, ...] | None = None  # of each word of the vocabulary in the training text
    card: str | None = None  # README.md: what the model is, and the license of its weights
    context: ContextLayer | None = None  # independent of the network
    aliases: Mapping[str, str] = field(default_factory=dict)  # tokens that the model takes for others
    sentence: SentenceHead | None = None

    def __post_init__(self) -> None:
        faults = list_differences(shapes_of(self.weights), expected_shapes(self.config))
        if faults:
            raise CheckpointError(f"The weights do not fit the configuration: {list_some(faults)}.")
        if not isinstance(self.weights, StoredWeights):
            check_finite(self.weights)
        _check_word_lists(self)
        if self.context is not None and self.context.word_dim != self.config.encoder.output_dim:
            raise CheckpointError(
                f"The context layer was made for a model with word vectors of {self.context.word_dim} dimensions, "
                f"but this one has {self.config.encoder.output_dim}; make one for it with elmo fuse."
            )
        if self.sentence is not None:
            self.sentence.check(self.config, self.context.config.dim if self.context is not None else 0)

    @property
    def storage(self) -> Storage:
        """How the weights are stored in the file that they come from; weights in memory are float32."""
        return self.weights.storage if isinstance(self.weights, StoredWeights) else "float32"

    def fingerprint(self) -> str:
        """Return the hash of everything that the layers depend on: settings, word lists and weights."""
        config = self.config.to_dict()
        config.pop("softmax", None)
        lists: list[object] = [self.characters, self.vocabulary if self.config.words else None]
        if self.aliases:
            lists.append(dict(self.aliases))
        digest = hashlib.sha256(json.dumps([config, lists], sort_keys=True, default=str).encode())
        for name in sorted(self.weights):
            if not name.startswith(SOFTMAX_PREFIXES):
                weight = np.ascontiguousarray(self.weights[name])
                digest.update(f"{name} {describe_type(weight)}".encode())
                digest.update(weight.data.cast("B"))
        return digest.hexdigest()

    def context_hash(self) -> str | None:
        """Return the hash of the context layer, which "meaning" and weighted sentence vectors depend on."""
        return None if self.context is None else self.context.content_hash()

    def indexer(self, *, literal_boundaries: bool = False) -> Indexer:
        """Return the indexer that turns words into this model's ids.

        With `literal_boundaries`, words of the text spelled like a boundary are one, as in the original programs.
        """
        return make_indexer(
            self.config, self.make_vocabulary(), self.characters or (), self.aliases,
            literal_boundaries=literal_boundaries,
        )  # fmt: skip

    def make_vocabulary(self) -> Vocabulary | None:
        """Return the word list with its special words, if the model has one."""
        return None if self.vocabulary is None else name_words(self.vocabulary, self.config, self.word_counts)


def make_indexer(
    config: ModelConfig,
    vocabulary: Vocabulary | None,
    characters: Sequence[str],
    aliases: Mapping[str, str],
    *,
    literal_boundaries: bool = False,
) -> Indexer:
    """Return the indexer of a model from its lists; `characters` are those of a dictionary alphabet."""
    alphabet: Alphabet | None = None
    if config.characters and config.characters.alphabet == "utf-8":
        alphabet = Utf8Alphabet(config.characters.max_characters)
    elif config.characters:
        alphabet = DictionaryAlphabet(characters, config.characters.max_characters)
    return Indexer(
        alphabet,
        vocabulary if config.words else None,
        max_word_length=config.words.max_word_length if config.words else None,
        literal_boundaries=(config.begin_word, config.end_word) if literal_boundaries else None,
        tokenization=Tokenization(config.tokenization, aliases),
    )


def name_words(words: Sequence[str], config: ModelConfig, counts: Sequence[int] | None = None) -> Vocabulary:
    """Return a word list with the special words of a model."""
    special = {"begin": config.begin_word, "end": config.end_word, "unknown": config.unknown_word}
    return Vocabulary(words, **special, counts=counts)


def _check_word_lists(checkpoint: Checkpoint) -> None:
    config, vocabulary, counts = checkpoint.config, checkpoint.vocabulary, checkpoint.word_counts
    expected_sizes = {settings.num_words for settings in (config.words, config.softmax) if settings}
    if vocabulary is not None and expected_sizes - {len(vocabulary)}:
        raise CheckpointError(
            f"The vocabulary has {len(vocabulary)} words but the weights have {max(expected_sizes)}; "
            "put the vocabulary file the model was trained with beside it."
        )
    if counts is not None and len(counts) != len(vocabulary or ()):
        raise CheckpointError(
            f"The model has {len(counts)} word counts for a vocabulary of {len(vocabulary or ())} words; save or copy "
            "the model again."
        )
    if config.words:
        if vocabulary is None:
            raise CheckpointError("This model reads whole words, so it needs its vocabulary; none was found.")
        if missing := name_words(vocabulary, config).missing_special_words():
            raise CheckpointError(f"The vocabulary lacks {', '.join(missing)}, which a model that reads words needs.")
    if config.characters and config.characters.alphabet == "dictionary":
        characters, expected = checkpoint.characters or (), config.characters.num_characters
        missing = [name for name in DictionaryAlphabet.SPECIAL if name not in characters]
        if missing or len(characters) != expected:
            raise CheckpointError(
                f"The list of characters has {len(characters)} entries, but {expected} with {', '.join(missing)} were "
                "expected; save or copy the model again."
            )
