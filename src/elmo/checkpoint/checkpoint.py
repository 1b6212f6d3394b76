"""A saved model: configuration, weights, word lists and components, independent of the file format.

Every format is read into a Checkpoint and written from it; elmo.nn.build turns it into torch modules.
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

SOFTMAX_PREFIXES = ("softmax.", "right_to_left_softmax.")  # weights that no vector depends on


@dataclass(frozen=True)
class Checkpoint:
    """The saved state of a model. The names and shapes of all weights are checked on creation.

    Weights in memory are also checked for NaN, infinity and overflow; StoredWeights are checked on first access.
    """

    config: ModelConfig
    weights: Weights
    vocabulary: tuple[str, ...] | None = None  # words by id, for the word embedding and the softmax
    characters: tuple[str, ...] | None = None  # characters by id, for a dictionary alphabet
    origin: Mapping[str, str] = field(default_factory=dict)  # format and source of the original files
    word_counts: tuple[int, ...] | None = None  # of the vocabulary's words in the training text
    card: str | None = None  # README.md: what the model is, and the license of its weights
    context: ContextLayer | None = None  # the network does not depend on it
    aliases: Mapping[str, str] = field(default_factory=dict)  # input token -> token that the model uses instead
    sentence: SentenceHead | None = None

    def __post_init__(self) -> None:
        faults = list_differences(shapes_of(self.weights), expected_shapes(self.config))
        if faults:
            raise CheckpointError(f"The weights do not fit the settings: {list_some(faults)}; use files of one model.")
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
        """The storage type of the weights in their file; float32 for weights in memory."""
        return self.weights.storage if isinstance(self.weights, StoredWeights) else "float32"

    def fingerprint(self) -> str:
        """Return a hash of everything that determines the layers: settings, word lists and weights."""
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

        With `literal_boundaries`, a word spelled like a boundary becomes that boundary, as in the original programs.
        """
        return make_indexer(self.config, self.make_vocabulary(), self.characters, self.aliases, literal_boundaries)

    def make_vocabulary(self) -> Vocabulary | None:
        """Return the word list with its special words, if the model has one."""
        return None if self.vocabulary is None else build_vocabulary(self.vocabulary, self.config, self.word_counts)


def make_indexer(
    config: ModelConfig,
    vocabulary: Vocabulary | None,
    characters: Sequence[str] | None,
    aliases: Mapping[str, str],
    literal_boundaries: bool = False,
) -> Indexer:
    """Return the indexer of a model; `characters` lists the characters of a dictionary alphabet."""
    alphabet: Alphabet | None = None
    if config.characters and config.characters.alphabet == "utf-8":
        alphabet = Utf8Alphabet(config.characters.max_characters)
    elif config.characters:
        alphabet = DictionaryAlphabet(characters or (), config.characters.max_characters)
    return Indexer(
        alphabet,
        vocabulary if config.words else None,
        max_word_length=config.words.max_word_length if config.words else None,
        literal_boundaries=(config.begin_word, config.end_word) if literal_boundaries else None,
        tokenization=Tokenization(config.tokenization, aliases),
    )


def build_vocabulary(words: Sequence[str], config: ModelConfig, counts: Sequence[int] | None = None) -> Vocabulary:
    """Return the vocabulary of a model from its words and the special words in its configuration."""
    special = {"begin": config.begin_word, "end": config.end_word, "unknown": config.unknown_word}
    return Vocabulary(words, **special, counts=counts)


def _check_word_lists(checkpoint: Checkpoint) -> None:
    config, vocabulary, counts = checkpoint.config, checkpoint.vocabulary, checkpoint.word_counts
    table = config.words or config.softmax  # with the same number of words, if both exist
    if vocabulary is not None and table is not None and len(vocabulary) != table.num_words:
        raise CheckpointError(
            f"The vocabulary has {len(vocabulary)} words but the weights have {table.num_words}; "
            "put the vocabulary file from training in the model's folder."
        )
    if counts is not None and (len(counts) != len(vocabulary or ()) or min(counts, default=0) < 0):
        raise CheckpointError(
            f"The {len(counts)} word counts do not fit the {len(vocabulary or ())} words of the vocabulary, or are "
            "negative; save or copy the model again."
        )
    if config.words:
        if vocabulary is None:
            raise CheckpointError("This model reads whole words, so it needs its vocabulary; none was found.")
        if missing := build_vocabulary(vocabulary, config).missing_special_words():
            raise CheckpointError(f"The vocabulary lacks {', '.join(missing)}, which a model that reads words needs.")
    if config.characters and config.characters.alphabet == "dictionary":
        characters, expected = checkpoint.characters or (), config.characters.num_characters
        if len(characters) != expected or not set(DictionaryAlphabet.SPECIAL) <= set(characters):
            raise CheckpointError(
                f"The list of characters has {len(characters)} entries, but {expected} with "
                f"{', '.join(DictionaryAlphabet.SPECIAL)} were expected; save or copy the model again."
            )
