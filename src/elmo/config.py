"""Settings as frozen, validated dataclasses: the parser that reads all of them, and those of a model.

Enters: a mapping read from JSON or TOML. Leaves: a dataclass, or one ConfigError that lists every fault.
Modules are not built here (see nn/build.py) and no file is read.
"""

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from elmo.errors import ConfigError

# Far above any real model, yet small enough to compute with: a larger number means a damaged or hostile file.
MOST_LAYERS, LARGEST_MAX_CHARACTERS, LARGEST_DIM, LARGEST_TABLE = 1000, 1024, 2**20, 2**31 - 1
OFFICIAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))

DataclassT = TypeVar("DataclassT")
# Scripts written without spaces between words.
Script: TypeAlias = Literal[
    "Han", "Hiragana", "Katakana", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Yi"
]


@dataclass(frozen=True)
class CharacterConfig:
    """How the characters of a word become features: embedding, convolutions, highways."""

    filters: tuple[tuple[int, int], ...] = OFFICIAL_FILTERS  # (width, channels) of each convolution
    embedding_dim: int = 16
    num_highways: int = 2
    activation: Literal["relu", "tanh"] = "relu"
    max_characters: int = 50  # ids per word, including the marks of its beginning and end
    num_characters: int = 262  # rows of the embedding
    alphabet: Literal["utf-8", "dictionary"] = "utf-8"  # bytes, or code points listed in characters.txt

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        found = list_not_positive(self, "embedding_dim", "num_characters")
        found += list_too_large(
            self, embedding_dim=LARGEST_DIM, num_characters=LARGEST_TABLE, max_characters=LARGEST_MAX_CHARACTERS,
            num_highways=MOST_LAYERS,
        )  # fmt: skip
        if self.max_characters < 3:
            found.append(f"max_characters is {self.max_characters}; it must be at least 3")
        if not self.filters:
            found.append("filters is empty; at least one [width, channels] is needed")
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
        """Return the length of a word's feature vector: the channels of all filters."""
        return sum(channels for _, channels in self.filters)


@dataclass(frozen=True)
class WordConfig:
    """A learned vector for each word of the vocabulary."""

    num_words: int
    embedding_dim: int
    max_word_length: int | None = None  # longer words are cut to this many code points before the look-up

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
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
    output_dim: int = 512  # D, of every layer and of the word vectors below them
    projected: bool = True  # False: cells are the output, so cell_dim equals output_dim
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    forget_bias: float = 1.0  # added to the forget gate, on top of the learned bias
    residual: bool = True  # from the second layer on, a layer's input is added to its output

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
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
    output_dim: int = 512  # D, of every layer and of the word vectors below them
    num_heads: int = 8
    feed_forward_dim: int = 2048
    context: int = 128  # number of preceding words that a word attends to, per layer

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        found = list_not_positive(self, "num_layers", "output_dim", "num_heads", "feed_forward_dim", "context")
        found += list_too_large(
            self, num_layers=MOST_LAYERS, output_dim=LARGEST_DIM, num_heads=LARGEST_DIM,
            feed_forward_dim=LARGEST_DIM, context=LARGEST_DIM,
        )  # fmt: skip
        if not found and self.output_dim % (2 * self.num_heads):
            found.append(
                f"output_dim is {self.output_dim}; it must be a multiple of twice num_heads ({self.num_heads}), "
                "because each head rotates pairs of dimensions"
            )
        return found


@dataclass(frozen=True)
class SoftmaxConfig:
    """The output layer that predicts words."""

    num_words: int
    shared: bool = True  # one for both directions, or one each

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        return list_not_positive(self, "num_words") + list_too_large(self, num_words=LARGEST_TABLE)


@dataclass(frozen=True)
class TokenizationConfig:
    """How text becomes the units that a model reads; the default is that of models of words."""

    # "words": a word that a caller gives is one unit. "characters": it is split like text, and its vector is the
    # mean of its units' vectors.
    units: Literal["words", "characters"] = "words"
    scripts: tuple[Script, ...] = ("Han",)  # in text, each letter of these scripts is one unit
    split_on_spaces: bool = False  # words are what spaces separate: the model was trained on segmented text

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        found = []
        if len(set(self.scripts)) != len(self.scripts):
            found.append(f"scripts has {', '.join(self.scripts)}; each may be listed once")
        if self.units == "characters" and not self.scripts:
            found.append("scripts is empty, but units is 'characters'; name the scripts whose letters are units")
        if self.units == "characters" and self.split_on_spaces:
            found.append("split_on_spaces is true, but units is 'characters'; choose one of them")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads."""
        values = {"units": self.units, "scripts": list(self.scripts)}
        return {**values, "split_on_spaces": True} if self.split_on_spaces else values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TokenizationConfig":
        """Read the object of to_dict; every unknown key and wrong type is named in one ConfigError."""
        return parse(cls, values, "The tokenization")


# Settings of new context layers, chosen on development data; layers that lack them keep their earlier vectors.
NEW_CONTEXT = {"focus": 5.0, "decay": 0.3, "share": 1.0, "substitutes": 1.0, "word": 0.3}


@dataclass(frozen=True)
class ContextConfig:
    """A context layer: the topic of the words around a word, from static vectors. Not part of the network."""

    num_words: int  # rows of the table
    dim: int
    window: int = 15  # words on each side
    focus: float = 2.0  # a neighbour with the cosine c to the word counts exp(focus * c) times as much
    shrinkage: float = 0.1  # a sum of length n is scaled to length n / (n + shrinkage)
    share: float = 1.5  # weight of the context in "meaning", relative to the top layer
    decay: float = 0.0  # a neighbour at the distance n counts exp(-decay * (n - 1)) times as much
    substitutes: float = 0.0  # weight of what could stand in place of a word, relative to the top layer
    word: float = 0.0  # weight of the word itself, relative to the top layer
    num_candidates: int = 384  # words that could stand in place of one
    relatedness: float = 2.0  # how much their cosine to the word counts
    unknown_weight: float = 0.5  # weight of a word without a row, whose vector is estimated from layer 0
    lowercase: bool = True  # the words of the rows are lower-case
    num_components: int = 15  # common directions removed from sentence vectors

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        found = list_not_positive(self, "num_words", "dim", "window", "num_candidates")
        sizes = {"dim": LARGEST_DIM, "window": LARGEST_DIM, "num_candidates": LARGEST_DIM}
        found += list_too_large(self, num_words=LARGEST_TABLE, **sizes)
        if not 0 < self.share < math.inf:
            found.append(f"share is {self.share}; it must be a finite number above 0")
        names = ("focus", "shrinkage", "unknown_weight", "decay", "substitutes", "word", "relatedness")
        for name in names:
            if not math.isfinite(getattr(self, name)) or getattr(self, name) < 0:
                found.append(f"{name} is {getattr(self, name)}; it must be a finite number, 0 or more")
        if not 0 <= self.num_components < self.dim:
            found.append(f"num_components is {self.num_components}; it must be 0 or more, and less than dim")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads; settings that were added later only if they are used."""
        values = dataclasses.asdict(self)
        if not (self.decay or self.substitutes or self.word):
            for name in ("decay", "substitutes", "word", "num_candidates", "relatedness"):
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ContextConfig":
        """Read the object of to_dict; every unknown key and wrong type is named in one ConfigError."""
        return parse(cls, values, "The configuration of the context layer")


@dataclass(frozen=True)
class SentenceConfig:
    """A sentence head: from the vectors of a sentence's words to one vector. Not part of the network."""

    dim: int  # of a sentence vector
    num_heads: int = 4

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = list_not_positive(self, "dim", "num_heads")
        return faults + list_too_large(self, dim=LARGEST_DIM, num_heads=MOST_LAYERS)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SentenceConfig":
        """Read the object of to_dict; every unknown key and wrong type is named in one ConfigError."""
        return parse(cls, values, "The configuration of the sentence head")


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to build a bidirectional language model and to read its input."""

    encoder: EncoderConfig | TransformerConfig = field(default_factory=EncoderConfig)  # distinguished by `kind`
    characters: CharacterConfig | None = field(default_factory=CharacterConfig)
    words: WordConfig | None = None
    token_projection: bool = True  # a linear map from a word's features to output_dim
    softmax: SoftmaxConfig | None = None
    begin_word: str = "<S>"  # how the vocabulary spells the boundaries and the unknown word
    end_word: str = "</S>"
    unknown_word: str = "<UNK>"
    tokenization: TokenizationConfig = field(default_factory=TokenizationConfig)

    def __post_init__(self) -> None:
        found = [f"encoder.{fault}" for fault in self.encoder.faults()]
        parts = {"characters": self.characters, "words": self.words, "softmax": self.softmax}
        for name, part in {**parts, "tokenization": self.tokenization}.items():
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
        """Return the length of a word's vector before the projection: word embedding, then character features."""
        from_words = self.words.embedding_dim if self.words else 0
        return from_words + (self.characters.num_features if self.characters else 0)

    @property
    def vector_dim(self) -> int:
        """Return 2·D, the length of the vectors that users see."""
        return 2 * self.encoder.output_dim

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads; the default tokenization is left out."""
        values = {**dataclasses.asdict(self), "tokenization": self.tokenization.to_dict()}
        if self.tokenization == TokenizationConfig():
            del values["tokenization"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """Read the object of to_dict; every unknown key and wrong type is named in one ConfigError."""
        return parse(cls, values, "The model configuration")


def parse(cls: type[DataclassT], values: Mapping[str, Any], what: str) -> DataclassT:
    """Build a dataclass from a mapping, or raise one ConfigError that begins with `what` and lists every fault.

    A dataclass may have a method `faults`, which returns what is wrong with its values.
    """
    found: list[str] = []
    part = _parse_dataclass(cls, values, "", found)
    if found or part is None:
        verb = "are" if what.startswith(("The settings", "The training settings")) else "is"
        raise ConfigError(f"{what} {verb} not valid: " + "; ".join(found) + ".")
    return part


def list_not_positive(part: object, *names: str) -> list[str]:
    """Return a phrase for each named number of a dataclass that is 0 or less; None is allowed."""
    values = {name: getattr(part, name) for name in names}
    return [
        f"{name} is {value}; it must be above 0"
        for name, value in values.items()
        if value is not None and not value > 0
    ]


def list_too_large(part: object, **limits: int) -> list[str]:
    """Return a phrase for each named number of a dataclass that is above its limit."""
    values = {name: getattr(part, name) for name in limits}
    return [
        f"{name} is {_shorten(value)}; it must be at most {limits[name]}"
        for name, value in values.items()
        if value is not None and value > limits[name]
    ]


def _shorten(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else f"{float(value):.3g}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _parse_dataclass(cls: type[DataclassT], values: Any, where: str, found: list[str]) -> DataclassT | None:
    if not isinstance(values, Mapping):
        found.append(f"{where or 'the configuration'} is {values!r}; an object was expected")
        return None
    hints = get_type_hints(cls)
    arguments: dict[str, Any] = {}
    num_faults = len(found)
    prefix = f"{where}." if where else ""
    for name, value in values.items():
        if name not in hints:
            near = difflib.get_close_matches(str(name), hints, n=1)
            advice = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(hints)}"
            found.append(f"unknown key '{prefix}{name}' ({advice})")
        else:
            arguments[name] = _parse_value(hints[name], value, prefix + name, found)
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]
        optional = each.default is not dataclasses.MISSING
        if each.name not in values and not optional and each.default_factory is dataclasses.MISSING:
            found.append(f"'{prefix}{each.name}' is missing")
    if len(found) > num_faults:
        return None
    part = cls(**arguments)
    found += [f"{prefix}{fault}" for fault in (part.faults() if hasattr(part, "faults") else [])]
    return part


def _parse_kind(classes: list[type[Any]], value: Any, where: str, found: list[str]) -> Any:
    """Read one of several dataclasses, distinguished by their field `kind`; the first is the default."""
    by_kind: dict[Any, type[Any]] = {cls.kind: cls for cls in classes}
    default = next(iter(by_kind))
    kind = value.get("kind", default) if isinstance(value, Mapping) else default
    if kind not in list(by_kind):  # a list, because the value may not be hashable
        found.append(f"'{where}.kind' is {kind!r}; it must be one of {', '.join(map(repr, by_kind))}")
        return None
    if isinstance(value, Mapping):
        own = get_type_hints(by_kind[kind])
        foreign = {
            name: other
            for other, cls in by_kind.items()
            for name in value
            if name not in own and name in get_type_hints(cls)
        }
        for name, other in foreign.items():
            found.append(f"'{where}.{name}' is a setting of the kind {other!r}, but '{where}.kind' is {kind!r}")
        value = {name: item for name, item in value.items() if name not in foreign}
    return _parse_dataclass(by_kind[kind], value, where, found)


def _parse_value(hint: Any, value: Any, where: str, found: list[str]) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        kinds = [choice for choice in choices if choice is not type(None)]
        if len(kinds) > 1:
            return _parse_kind(kinds, value, where, found)
        return _parse_value(kinds[0], value, where, found)
    if dataclasses.is_dataclass(hint):
        return _parse_dataclass(hint, value, where, found)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list | tuple):
        inner = [choices[0]] * len(value) if choices[-1] is Ellipsis else list(choices)
        if len(inner) == len(value):
            return tuple(_parse_value(part, item, where, found) for part, item in zip(inner, value, strict=True))
    elif origin is Literal:
        if value in choices:
            return value
        found.append(f"'{where}' is {value!r}; it must be one of {', '.join(map(repr, choices))}")
        return None
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
        found.append(f"'{where}' is {value!r}; a finite number was expected")
        return None
    elif hint in (int, str, bool) and type(value) is hint:
        return value
    if origin is tuple:
        expected = "a list" if choices[-1] is Ellipsis else f"a list of {len(choices)}"
    else:
        expected = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[hint]
    found.append(f"'{where}' is {value!r}; {expected} was expected")
    return None
