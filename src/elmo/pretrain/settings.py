"""The settings of training as frozen, validated dataclasses, and the presets.

The vocabulary and the softmax follow from the corpus, or from the model of --init, and are not settings.
"""

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, Settings, merge, number, parse
from elmo.errors import ConfigError
from elmo.text.characters import Utf8Alphabet

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


UNKNOWN_SIZE = 1  # placeholder for the vocabulary size until the corpus is opened
# Settings of a model that follow from the corpus, with their placeholders.
_CORPUS_SETTINGS: dict[str, Any] = {
    "softmax": None, "words.num_words": UNKNOWN_SIZE,
    "characters.alphabet": "utf-8", "characters.num_characters": Utf8Alphabet.NUM_IDS,
    "begin_word": ModelConfig.begin_word, "end_word": ModelConfig.end_word, "unknown_word": ModelConfig.unknown_word,
}  # fmt: skip


@dataclass(frozen=True)
class OptimizerSettings(Settings):
    """The optimizer. The gradient is that of the loss per word times num_steps, as in bilm-tf."""

    kind: Literal["adagrad", "adamw"] = "adagrad"
    learning_rate: float = number(0.2, above=0)
    warmup_steps: int = number(0, least=0)  # updates over which the rate rises linearly from 0
    decay: Literal["none", "cosine"] = "none"  # to a tenth, over the whole run
    linear_decay_steps: int = number(0, least=0)  # last updates of the run, over which the rate falls linearly to 0
    weight_decay: float = number(0.0, least=0)  # adamw only
    clip_norm: float = number(10.0, above=0)  # maximum norm of the gradient of all weights together

    def faults(self) -> list[str]:
        """Return one phrase per invalid setting."""
        faults = super().faults()
        if self.weight_decay and self.kind != "adamw":
            faults.append(f"weight_decay is {self.weight_decay}, but {self.kind} has none; use adamw or leave it out")
        return faults


@dataclass(frozen=True)
class TeacherSettings(Settings):
    """Distillation: an encoder whose word and sentence vectors the model learns to predict."""

    model: str  # a Hugging Face encoder: a folder, or a name on the hub
    words: float = number(10.0, least=0)  # weight of the loss on its word vectors; 0: not distilled
    sentences: float = number(0.0, least=0)  # weight of the loss on its sentence vectors; 0: not distilled
    contrast: float = number(1.0, least=0)  # weight of the margin to reordered and negated sentences
    negations: tuple[str, ...] = ()  # words that negate a sentence, in lower case
    corpus: str | None = None  # a prepared corpus of sentences for the teacher; by default that of the run
    num_sentences: int = number(200_000, least=0)  # sentences to encode, drawn at random; 0: all
    cache: str | None = None  # folder of the teacher's vectors; by default RUN-teacher
    batch_sentences: int = number(256, above=0)  # sentences in a distillation batch
    begin: float = number(0.0, least=0, most=1)  # start of distillation, as a fraction of the run
    max_words: int = number(48, above=0)  # longer sentences are truncated, for the teacher and the model
    precision: Literal["float32", "bfloat16"] = "float32"  # of the teacher

    def faults(self) -> list[str]:
        """Return one phrase per invalid setting."""
        faults = super().faults()
        if not self.words and not self.sentences:
            faults.append("words and sentences are both 0; set the weight of at least one of them")
        return faults


@dataclass(frozen=True)
class TrainSettings(Settings):
    """The settings of a training run; together with its input files, they determine the result."""

    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    teacher: TeacherSettings | None = None
    num_rows: int = number(128, above=0)  # batch size over all processes
    num_steps: int = number(20, above=0)  # words per row in a window (truncated backpropagation)
    num_samples: int = number(8192, least=0)  # negative samples per window; 0: softmax over the whole vocabulary
    share_softmax: bool = True  # one softmax for both directions, or one each
    softmax_bias: Literal["zero", "frequency"] = "zero"  # initial bias; frequency: log of the word's frequency
    dropout: float = number(0.1, least=0, most=0.99)
    reset_state: Literal["sentence", "never"] = "sentence"  # where the LSTM state is reset to zero
    # Of matrix multiplications; when settings are read, auto becomes bfloat16 if the CPU has instructions for it.
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    num_epochs: float = number(10.0, above=0)
    max_updates: int | None = number(None, above=0)  # ends the run earlier than num_epochs
    seed: int = number(0, least=0)
    log_every: int = number(20, above=0)  # updates
    validate_every: int = number(1000, above=0)
    checkpoint_every: int = number(500, above=0)
    keep_checkpoints: int = number(2, above=0)  # how many of the last checkpoints to keep


def _list_overwritten(model: ModelConfig) -> list[str]:
    """Return one phrase per setting of a model that follows from the corpus."""
    faults = []
    for name, expected in _CORPUS_SETTINGS.items():
        group, _, key = name.rpartition(".")
        config = getattr(model, group) if group else model
        if config is not None and getattr(config, key) != expected:
            faults.append(f"model.{name} follows from the corpus; leave it out")
    return faults


def _official(cell_dim: int, output_dim: int, num_highways: int) -> TrainSettings:
    encoder = EncoderConfig(cell_dim=cell_dim, output_dim=output_dim)
    return TrainSettings(model=ModelConfig(encoder=encoder, characters=CharacterConfig(num_highways=num_highways)))


PRESETS: dict[str, TrainSettings] = {
    "tiny": TrainSettings(
        model=ModelConfig(
            encoder=EncoderConfig(cell_dim=64, output_dim=32),
            characters=CharacterConfig(filters=((1, 16), (2, 16), (3, 32)), embedding_dim=8, num_highways=1),
        ),
        num_rows=16,
        num_samples=64,
        checkpoint_every=100,
        validate_every=100,
    ),
    "en-small": TrainSettings(
        model=ModelConfig(
            encoder=EncoderConfig(cell_dim=512, output_dim=256),
            characters=CharacterConfig(
                filters=((1, 32), (2, 64), (3, 128), (4, 128), (5, 128), (6, 128), (7, 160)), num_highways=1
            ),
        ),
        optimizer=OptimizerSettings(kind="adamw", learning_rate=2e-3, warmup_steps=500),
        num_samples=2048,
        softmax_bias="frequency",
        dropout=0.0,
        precision="auto",
        num_epochs=1.0,
    ),
    # The paper's model and the smaller official ones.
    "small": _official(1024, 128, 1),
    "medium": _official(2048, 256, 1),
    "original": _official(4096, 512, 2),
}


def read_settings(
    *, preset: str | None = None, file: Path | None = None, changes: Mapping[str, Any] | None = None
) -> TrainSettings:
    """Read the settings of a preset (or the defaults), of a TOML file and of `changes` (by dotted name).

    Each overrides the previous. The file may name its own preset. Raises one ConfigError that lists all faults.
    """
    stated = _read_toml(file) if file is not None else {}
    merge(stated, changes or {})
    preset_in_file = stated.pop("preset", None)
    name = preset or preset_in_file
    if name is not None and (not isinstance(name, str) or name not in PRESETS):
        raise ConfigError(f"The preset {name!r} is not known; choose one of {', '.join(PRESETS)}.")
    values = (PRESETS[name] if name else TrainSettings()).to_dict()
    model = stated.get("model")
    if isinstance(model, dict):
        encoder = model.get("encoder")
        if isinstance(encoder, dict) and encoder.get("kind", "lstm") != values["model"]["encoder"]["kind"]:
            values["model"]["encoder"] = {}  # the preset's encoder is of another kind
        if model.get("characters") is False:
            model["characters"] = None  # TOML has no null
        if isinstance(model.get("words"), dict):
            model["words"].setdefault("num_words", UNKNOWN_SIZE)
    merge(values, stated)
    source = f"The configuration in {file}" if file else "The training configuration"
    settings = parse(TrainSettings, values, source)
    if faults := _list_overwritten(settings.model):
        raise ConfigError(f"{source} is not valid: {'; '.join(faults)}.")
    if settings.precision != "auto":
        return settings
    from elmo.device import supports_bfloat16  # imports torch

    # The run records the choice, so that it resumes in the same precision.
    return dataclasses.replace(settings, precision="bfloat16" if supports_bfloat16() else "float32")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return dict(tomllib.load(file))
    except OSError as error:
        raise ConfigError(f"{path} could not be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
