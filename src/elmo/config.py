"""Settings as frozen, validated dataclasses: the parser for all settings, and the settings of a model.

The parser turns a mapping from JSON or TOML into a dataclass, or raises one ConfigError that lists every fault.
No modules are built here (see nn/build.py) and no files are read.
"""

import dataclasses
import difflib
import functools
import math
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from elmo.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

# Far above any real model, yet small enough to compute with: a larger number means a damaged or hostile file.
MOST_LAYERS, LARGEST_MAX_CHARACTERS, LARGEST_DIM, LARGEST_TABLE = 1000, 1024, 2**20, 2**31 - 1
OFFICIAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))

DataclassT = TypeVar("DataclassT")
Pooling: TypeAlias = Literal["auto", "head", "weighted", "mean", "max"]  # of word vectors to a sentence vector
# Scripts written without spaces between words.
Script: TypeAlias = Literal[
    "Han", "Hiragana", "Katakana", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Yi"
]


def number(default: Any = dataclasses.MISSING, **bounds: float) -> Any:
    """Declare a number with the bounds `above` (exclusive), `least` and `most` (inclusive)."""
    return field(default=default, metadata=bounds)


def option(default: Any, help: str, spec: str = "", **bounds: float) -> Any:
    """Declare a field that is also a command-line option; `spec` is its flag and value name, as in "--seed N".

    By default, the flag is the field's name.
    """
    metadata = {"help": help, "spec": spec, **bounds}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


_count = functools.partial(number, above=0, most=LARGEST_TABLE)
_size = functools.partial(number, above=0, most=LARGEST_DIM)
_weight = functools.partial(number, least=0)


class Settings:
    """A dataclass of settings, whose types and declared bounds define the valid values."""

    title = "The configuration"  # in messages

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults: list[str] = []
        for setting in dataclasses.fields(self):  # type: ignore[arg-type]
            faults += _list_faults(setting.name, getattr(self, setting.name), setting.type, setting.metadata)
        return faults

    def check(self) -> None:
        """Raise one ConfigError that lists every fault, if there are any."""
        if faults := self.faults():
            raise _invalid(self.title, faults)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        """Read the object that to_dict returns; one ConfigError names every unknown key and wrong type."""
        return parse(cls, values, cls.title)


@dataclass(frozen=True)
class CharacterConfig(Settings):
    """The encoder of a word's characters: embedding, convolutions, highways."""

    filters: tuple[tuple[int, int], ...] = OFFICIAL_FILTERS  # (width, channels) of each convolution
    embedding_dim: int = _size(16)
    num_highways: int = number(2, least=0, most=MOST_LAYERS)
    activation: Literal["relu", "tanh"] = "relu"
    max_characters: int = number(50, least=3, most=LARGEST_MAX_CHARACTERS)  # ids per word, with begin and end
    num_characters: int = _count(262)  # rows of the embedding
    alphabet: Literal["utf-8", "dictionary"] = "utf-8"  # bytes, or code points listed in characters.txt

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if not 0 < len(self.filters) <= MOST_LAYERS:
            faults.append(f"filters has {len(self.filters)} entries; 1 to {MOST_LAYERS} are possible")
        for width, channels in self.filters[:MOST_LAYERS]:
            if not (1 <= width <= self.max_characters and 1 <= channels <= LARGEST_DIM):
                faults.append(
                    f"filters has {[width, channels]!r:.80}; the width must be 1 to max_characters "
                    f"({self.max_characters!r:.80}) and the channels 1 to {LARGEST_DIM}"
                )
        return faults

    @property
    def num_features(self) -> int:
        """Return the length of a word's feature vector: the channels of all filters."""
        return sum(channels for _, channels in self.filters)


@dataclass(frozen=True)
class WordConfig(Settings):
    """A learned vector for each word of the vocabulary."""

    num_words: int = _count()
    embedding_dim: int = _size()
    max_word_length: int | None = _count(None)  # longer words are cut to this many code points before the look-up


@dataclass(frozen=True)
class EncoderConfig(Settings):
    """The LSTM of one direction of the language model; both directions have the same settings."""

    kind: Literal["lstm"] = field(default="lstm", kw_only=True)
    num_layers: int = number(2, above=0, most=MOST_LAYERS)
    cell_dim: int = _size(4096)
    output_dim: int = _size(512)  # D, of every layer and of the word vectors below them
    projected: bool = True  # False: cells are the output, so cell_dim equals output_dim
    cell_clip: float | None = number(3.0, above=0)
    projection_clip: float | None = number(3.0, above=0)
    forget_bias: float = 1.0  # added to the forget gate, on top of the learned bias
    residual: bool = True  # from the second layer on, a layer's input is added to its output

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if not self.projected and self.cell_dim != self.output_dim:
            faults.append(
                f"projected is false, so cell_dim ({self.cell_dim}) must equal output_dim ({self.output_dim})"
            )
        return faults


@dataclass(frozen=True)
class TransformerConfig(Settings):
    """The causal Transformer of one direction of the language model; both directions have the same settings."""

    kind: Literal["transformer"] = field(default="transformer", kw_only=True)
    num_layers: int = number(6, above=0, most=MOST_LAYERS)
    output_dim: int = _size(512)  # D, of every layer and of the word vectors below them
    num_heads: int = _size(8)
    feed_forward_dim: int = _size(2048)
    context: int = _size(128)  # number of preceding words that a word attends to, per layer

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if not faults and self.output_dim % (2 * self.num_heads):
            faults.append(
                f"output_dim is {self.output_dim}; it must be a multiple of twice num_heads ({self.num_heads}), "
                "because each head rotates pairs of dimensions"
            )
        return faults


@dataclass(frozen=True)
class SoftmaxConfig(Settings):
    """The output layer that predicts words."""

    num_words: int = _count()
    shared: bool = True  # whether both directions use the same softmax


@dataclass(frozen=True)
class TokenizationConfig(Settings):
    """The rules that split text into tokens; the defaults are those of word-level models."""

    title = "The tokenization"

    # "words": each word from the caller is one token. "characters": words are split like text, and the vector of a
    # word is the mean of its tokens' vectors.
    units: Literal["words", "characters"] = "words"
    scripts: tuple[Script, ...] = ("Han",)  # in text, each letter of these scripts is one token
    split_on_spaces: bool = False  # split words only at spaces, for models trained on segmented text

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if self.units == "characters" and not self.scripts:
            faults.append("scripts is empty, but units is 'characters'; name the scripts whose letters are units")
        if self.units == "characters" and self.split_on_spaces:
            faults.append("split_on_spaces is true, but units is 'characters'; choose one of them")
        return faults

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that from_dict reads."""
        values = {"units": self.units, "scripts": list(self.scripts)}
        return {**values, "split_on_spaces": True} if self.split_on_spaces else values


# Settings of new context layers, chosen on development data; layers that lack them keep their earlier vectors.
NEW_CONTEXT = {"focus": 5.0, "decay": 0.3, "share": 1.0, "substitutes": 1.0, "word": 0.3}


@dataclass(frozen=True)
class ContextConfig(Settings):
    """A context layer: the topic of the words around a word, from static vectors. Not part of the network."""

    title = "The configuration of the context layer"

    num_words: int = _count()  # rows of the table
    dim: int = _size()
    window: int = _size(15)  # words on each side
    focus: float = _weight(2.0)  # a neighbor with cosine c to the word has exp(focus * c) times the weight
    shrinkage: float = _weight(0.1)  # a sum of length n is scaled to length n / (n + shrinkage)
    share: float = number(1.5, above=0)  # weight of the context in "meaning", relative to the top layer
    decay: float = _weight(0.0)  # a neighbor at distance n has exp(-decay * (n - 1)) times the weight
    substitutes: float = _weight(0.0)  # weight of a word's substitutes, relative to the top layer
    word: float = _weight(0.0)  # weight of the word itself, relative to the top layer
    num_candidates: int = _size(384)  # number of substitutes of a word
    relatedness: float = _weight(2.0)  # weight of the cosine between a substitute and the word
    unknown_weight: float = _weight(0.5)  # of a word without a row, whose vector is estimated from layer 0
    lowercase: bool = True  # the words of the rows are lower-case
    num_components: int = number(15, least=0)  # common directions removed from sentence vectors

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if not self.num_components < self.dim:
            faults.append(f"num_components is {self.num_components}; it must be less than dim ({self.dim})")
        return faults


@dataclass(frozen=True)
class SentenceConfig(Settings):
    """A sentence head, which pools a sentence's word vectors into one vector. Not part of the network."""

    title = "The configuration of the sentence head"

    dim: int = _size()  # of a sentence vector
    num_heads: int = number(4, above=0, most=MOST_LAYERS)


@dataclass(frozen=True)
class ModelConfig(Settings):
    """Everything needed to build a bidirectional language model and to encode its input."""

    title = "The model configuration"

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
        self.check()

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if self.characters is None and self.words is None:
            faults.append("characters and words are both null; a model needs at least one input")
        elif not faults and not self.token_projection and self.num_features != self.encoder.output_dim:
            faults.append(
                f"token_projection is false, so a word's {self.num_features} features must equal "
                f"encoder.output_dim ({self.encoder.output_dim})"
            )
        if self.words and self.softmax and self.words.num_words != self.softmax.num_words:
            faults.append(
                f"words.num_words ({self.words.num_words}) and softmax.num_words ({self.softmax.num_words}) "
                "must be equal: both follow vocabulary.txt"
            )
        return faults

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


def parse(cls: type[DataclassT], values: Mapping[str, Any], subject: str) -> DataclassT:
    """Build a dataclass from a mapping, or raise one ConfigError that lists every fault of `subject`."""
    faults: list[str] = []
    parsed = _parse_dataclass(cls, values, "", faults)
    if parsed is None:
        raise _invalid(subject, faults)
    return parsed


def merge(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Update nested values in place; `changes` may be nested or have dotted names."""
    for name, change in changes.items():
        key, _, rest = name.partition(".")
        if rest:
            change = {rest: change}
        if isinstance(change, Mapping):
            if not isinstance(values.get(key), dict):
                values[key] = {}
            merge(values[key], change)
        else:
            values[key] = change


def _invalid(subject: str, faults: Iterable[str]) -> ConfigError:
    return ConfigError(f"{subject} is not valid: {'; '.join(faults)}.")


def _name_rule(name: str, value: object, rule: str) -> str:
    text = repr(value)
    return f"{name} is {text if len(text) <= 80 else f'{text[:77]}...'}; it must be {rule}"


def _list_faults(name: str, value: Any, hint: Any, bounds: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a field's value, given its type and bounds; None is always allowed."""
    rule, choices = None, get_args(hint)
    if isinstance(value, Settings):
        yield from (f"{name}.{fault}" for fault in value.faults())
    elif isinstance(value, tuple) and get_origin(hint) is tuple:
        for item in value:
            yield from _list_faults(name, item, choices[0], bounds)
    elif get_origin(hint) is Literal and value not in choices:
        rule = _one_of(choices)
    elif isinstance(value, float) and not math.isfinite(value):
        rule = "a finite number"
    elif value is not None:
        if "above" in bounds and not value > bounds["above"]:
            rule = f"above {bounds['above']}"
        elif "least" in bounds and value < bounds["least"]:
            rule = f"at least {bounds['least']}"
        elif "most" in bounds and value > bounds["most"]:
            rule = f"at most {bounds['most']}"
    if rule is not None:
        yield _name_rule(name, value, rule)


def _one_of(choices: Iterable[object]) -> str:
    return f"one of {', '.join(map(repr, choices))}"


def _parse_dataclass(cls: type[DataclassT], values: Any, where: str, faults: list[str]) -> DataclassT | None:
    """Build a dataclass, or add its faults to the list and return None; `where` is its dotted name."""
    if not isinstance(values, Mapping):
        faults.append(_name_rule(where or "it", values, "an object"))
        return None
    settings = {setting.name: setting for setting in dataclasses.fields(cls)}  # type: ignore[arg-type]
    arguments: dict[str, Any] = {}
    num_faults = len(faults)
    prefix = f"{where}." if where else ""
    for name, value in values.items():
        if name in settings:
            arguments[name] = _parse_value(settings[name].type, value, prefix + name, faults)
        else:
            matches = difflib.get_close_matches(str(name), settings, n=1)
            advice = f"did you mean '{matches[0]}'?" if matches else f"known keys: {', '.join(settings)}"
            faults.append(f"unknown key '{prefix}{name}' ({advice})")
    for name, setting in settings.items():
        has_default = setting.default is not setting.default_factory  # both are MISSING without one
        if name not in values and not has_default:
            faults.append(f"'{prefix}{name}' is missing")
    if len(faults) == num_faults:
        parsed = cls(**arguments)
        if isinstance(parsed, Settings):
            faults += [prefix + fault for fault in parsed.faults()]
    return parsed if len(faults) == num_faults else None


def _parse_kind(classes: list[type[Any]], value: Any, where: str, faults: list[str]) -> Any:
    """Build one of several dataclasses, distinguished by their field `kind`; the first is the default."""
    by_kind: dict[Any, type[Any]] = {cls.kind: cls for cls in classes}
    default = next(iter(by_kind))
    kind = value.get("kind", default) if isinstance(value, Mapping) else default
    if kind not in list(by_kind):  # a list, because the value may not be hashable
        faults.append(_name_rule(f"{where}.kind", kind, _one_of(by_kind)))
        return None
    return _parse_dataclass(by_kind[kind], value, where, faults)


def _parse_value(hint: Any, value: Any, where: str, faults: list[str]) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        hints = [choice for choice in choices if choice is not type(None)]
        if len(hints) > 1:
            return _parse_kind(hints, value, where, faults)
        return _parse_value(hints[0], value, where, faults)
    if dataclasses.is_dataclass(hint):
        return _parse_dataclass(hint, value, where, faults)  # type: ignore[arg-type]
    if origin is tuple:
        any_length = choices[-1] is Ellipsis
        if isinstance(value, list | tuple) and (any_length or len(value) == len(choices)):
            hints = [choices[0]] * len(value) if any_length else list(choices)
            return tuple(_parse_value(hint, item, where, faults) for hint, item in zip(hints, value, strict=True))
        rule = "a list" if any_length else f"a list of {len(choices)}"
    elif origin is Literal:
        if value in choices:
            return value
        rule = _one_of(choices)
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) <= sys.float_info.max:  # neither NaN nor infinite, nor an integer beyond float
            return float(value)
        rule = "a finite number"
    elif type(value) is hint:
        return value
    else:
        rule = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[hint]
    faults.append(_name_rule(where, value, rule))
    return None
