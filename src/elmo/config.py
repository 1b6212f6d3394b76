"""What a model is made of: frozen, validated dataclasses <-> plain JSON objects.

Enters: the mapping read from a config.json. Leaves: a ModelConfig, or one ConfigError that lists every fault.
Modules are not built here (see build.py) and no file is read.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from elmo.errors import ConfigError
from elmo.parsing import list_not_positive, list_too_large, parse

# Far beyond any model, and yet small enough to be worked with: what is larger is a damaged or hostile file.
MOST_LAYERS, LARGEST_MAX_CHARACTERS, LARGEST_DIM, LARGEST_TABLE = 1000, 1024, 2**20, 2**31 - 1
OFFICIAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True)
class CharacterConfig:
    """How the characters of a word become features: embedding, convolutions, highways."""

    filters: tuple[tuple[int, int], ...] = OFFICIAL_FILTERS  # (width, channels) of each convolution
    embedding_dim: int = 16
    num_highways: int = 2
    activation: Literal["relu", "tanh"] = "relu"
    max_characters: int = 50  # ids per word, the marks of its begin and end included
    num_characters: int = 262  # rows of the embedding
    alphabet: Literal["utf-8", "dictionary"] = "utf-8"  # bytes, or code points listed in characters.txt

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "embedding_dim", "num_characters")
        found += list_too_large(
            self, embedding_dim=LARGEST_DIM, num_characters=LARGEST_TABLE, max_characters=LARGEST_MAX_CHARACTERS,
            num_highways=MOST_LAYERS,
        )  # fmt: skip
        if self.max_characters < 3:
            found.append(f"max_characters is {self.max_characters}; it must be at least 3")
        if not self.filters:
            found.append("filters is empty; give at least one [width, channels]")
        if len(self.filters) > MOST_LAYERS:
            found.append(f"filters has {len(self.filters)} entries; at most {MOST_LAYERS} are possible")
        for width, channels in self.filters[:MOST_LAYERS]:
            if not 1 <= width <= self.max_characters or channels < 1:
                found.append(
                    f"filters has [{width}, {channels}]; the width must be 1 to max_characters "
                    f"({self.max_characters}) and the channels at least 1"
                )
            elif channels > LARGEST_DIM:
                found.append(f"filters has [{width}, {channels}]; at most {LARGEST_DIM} channels are possible")
        if self.num_highways < 0:
            found.append(f"num_highways is {self.num_highways}; it must be 0 or more")
        return found

    @property
    def num_features(self) -> int:
        """The length of a word's feature vector: all filters' channels."""
        return sum(channels for _, channels in self.filters)


@dataclass(frozen=True)
class WordConfig:
    """A learned vector for each word of the vocabulary."""

    num_words: int
    embedding_dim: int
    max_word_length: int | None = None  # longer words are cut to this many code points before the look-up

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "num_words", "embedding_dim", "max_word_length")
        return found + list_too_large(
            self, num_words=LARGEST_TABLE, embedding_dim=LARGEST_DIM, max_word_length=LARGEST_TABLE
        )


@dataclass(frozen=True)
class EncoderConfig:
    """One direction of the language model as an LSTM; both directions are alike."""

    kind: Literal["lstm"] = field(default="lstm", kw_only=True)
    num_layers: int = 2
    cell_dim: int = 4096
    output_dim: int = 512  # D: of every layer, the word vectors below included
    projected: bool = True  # False: cells are the output, so cell_dim equals output_dim
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    forget_bias: float = 1.0  # added to the forget gate beside the learned bias
    residual: bool = True  # from the second layer on, a layer's input is added to its output

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "num_layers", "cell_dim", "output_dim", "cell_clip", "projection_clip")
        found += list_too_large(self, num_layers=MOST_LAYERS, cell_dim=LARGEST_DIM, output_dim=LARGEST_DIM)
        for name in ("cell_clip", "projection_clip", "forget_bias"):
            if getattr(self, name) is not None and not math.isfinite(getattr(self, name)):
                found.append(f"{name} is {getattr(self, name)}; it must be a finite number")
        if not self.projected and self.cell_dim != self.output_dim:
            found.append(
                f"projected is false, so cell_dim ({self.cell_dim}) must equal output_dim ({self.output_dim})"
            )
        return found


@dataclass(frozen=True)
class TransformerConfig:
    """One direction of the language model as a causal Transformer; both directions are alike."""

    kind: Literal["transformer"] = field(default="transformer", kw_only=True)
    num_layers: int = 6
    output_dim: int = 512  # D: of every layer, the word vectors below included
    num_heads: int = 8
    feed_forward_dim: int = 2048
    context: int = 128  # how many words before it a word sees, in each layer

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        found = list_not_positive(self, "num_layers", "output_dim", "num_heads", "feed_forward_dim", "context")
        found += list_too_large(
            self, num_layers=MOST_LAYERS, output_dim=LARGEST_DIM, num_heads=LARGEST_DIM,
            feed_forward_dim=LARGEST_DIM, context=LARGEST_DIM,
        )  # fmt: skip
        if not found and self.output_dim % (2 * self.num_heads):
            found.append(
                f"output_dim is {self.output_dim}; it must be a multiple of twice num_heads ({self.num_heads}), "
                "for each head turns pairs of values"
            )
        return found


@dataclass(frozen=True)
class SoftmaxConfig:
    """The layer that predicts words."""

    num_words: int
    shared: bool = True  # one for both directions, or one each

    def faults(self) -> list[str]:
        """What is wrong with these settings, a phrase each."""
        return list_not_positive(self, "num_words") + list_too_large(self, num_words=LARGEST_TABLE)


@dataclass(frozen=True)
class ContextConfig:
    """A context layer: what the words around a word are about, by their static vectors. No part of the network."""

    num_words: int  # rows of the table
    dim: int
    window: int = 15  # words on each side
    focus: float = 2.0  # a neighbour with the cosine c to the word counts exp(focus * c) times as much
    shrinkage: float = (
        0.1  # a sum of the length n gets the length n / (n + shrinkage): few weighty words say little
    )
    share: float = 1.5  # of the context beside the top layer in "meaning", which has the share 1
    unknown_weight: float = 0.5  # of a word that has no row, whose vector is estimated from layer 0
    lowercase: bool = True  # rows are words in lower case
    num_components: int = 15  # common directions that are removed from vectors of sentences

    def faults(self) -> list[str]:
        """Return what is wrong with these settings, one phrase per fault."""
        found = list_not_positive(self, "num_words", "dim", "window", "share")
        found += list_too_large(self, num_words=LARGEST_TABLE, dim=LARGEST_DIM, window=LARGEST_DIM)
        for name in ("focus", "shrinkage", "share", "unknown_weight"):
            if not math.isfinite(getattr(self, name)) or getattr(self, name) < 0:
                found.append(f"{name} is {getattr(self, name)}; it must be a finite number, 0 or more")
        if not 0 <= self.num_components < self.dim:
            found.append(f"num_components is {self.num_components}; it must be 0 or more, and less than dim")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ContextConfig":
        """Read the object of to_dict; every unknown key and wrong type is named in one ConfigError."""
        return parse(cls, values, "The configuration of the context layer")


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to build a bidirectional language model and to read its input."""

    encoder: EncoderConfig | TransformerConfig = field(default_factory=EncoderConfig)  # told apart by `kind`
    characters: CharacterConfig | None = field(default_factory=CharacterConfig)
    words: WordConfig | None = None
    token_projection: bool = True  # a linear map from a word's features to output_dim
    softmax: SoftmaxConfig | None = None
    begin_word: str = "<S>"  # how the vocabulary spells the boundaries and the unknown word
    end_word: str = "</S>"
    unknown_word: str = "<UNK>"

    def __post_init__(self) -> None:
        found = [f"encoder.{fault}" for fault in self.encoder.faults()]
        for name, part in (("characters", self.characters), ("words", self.words), ("softmax", self.softmax)):
            found += [f"{name}.{fault}" for fault in part.faults()] if part else []
        if self.characters is None and self.words is None:
            found.append("characters and words are both null; a model needs at least one input")
        elif not found and not self.token_projection and self.num_features != self.encoder.output_dim:
            found.append(
                f"token_projection is false, so a word's {self.num_features} features must equal "
                f"encoder.output_dim ({self.encoder.output_dim})"
            )
        if self.words and self.softmax and self.words.num_words != self.softmax.num_words:
            found.append(
                f"words.num_words ({self.words.num_words}) and softmax.num_words ({self.softmax.num_words}) "
                "must be equal: both follow vocabulary.txt"
            )
        if found:
            raise ConfigError("The model configuration is not valid: " + "; ".join(found) + ".")

    @property
    def num_features(self) -> int:
        """Length of a word's vector before the projection: word embedding, then character features."""
        from_words = self.words.embedding_dim if self.words else 0
        return from_words + (self.characters.num_features if self.characters else 0)

    @property
    def vector_dim(self) -> int:
        """2·D: the length of the vectors that users see."""
        return 2 * self.encoder.output_dim

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object that from_dict reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """Read the object of to_dict; every unknown key and wrong type is named in one ConfigError."""
        return parse(cls, values, "The model configuration")
