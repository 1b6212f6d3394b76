"""transformers: ElmoConfig, ElmoModel, ElmoTokenizer and two heads; importing this registers them as Auto classes.

A token is a word, so labels of words need no alignment. `from_pretrained` opens whatever Elmo.from_pretrained
opens; `ElmoModel.save_pretrained` writes such a folder, the heads write what transformers writes.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.config import ModelConfig
from elmo.device import ModuleRuntime
from elmo.errors import ConfigError, InputError
from elmo.integrations import missing_package, save_model
from elmo.model import Elmo
from elmo.nn.batch import Boundaries, pad_sentences, run_bilm, unpad_sentences
from elmo.nn.build import build_bilm, to_tensors, weights_of
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.batch import Indexer
from elmo.text.characters import DictionaryAlphabet, Utf8Alphabet
from elmo.text.sentence_input import as_plain
from elmo.text.tokenize import Word
from elmo.text.units import Tokenization
from elmo.text.vocabulary import Vocabulary, format_lines, parse_lines

try:
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
        BatchEncoding,
        PretrainedConfig,
        PreTrainedModel,
        PreTrainedTokenizer,
    )
    from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput, TokenClassifierOutput
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file
except ImportError as error:
    raise missing_package("transformers", "transformers") from error

VOCABULARY_FILE, CHARACTERS_FILE, ALIASES_FILE = "vocabulary.txt", "characters.txt", "aliases.txt"
_OPENING = ("format", "revision", "local_files_only", "token_embeddings")


class ElmoConfig(PretrainedConfig):
    """What a model is made of, and how a head is trained on it.

    `model` is the dictionary of elmo.config.ModelConfig, `dropout` that of the heads; with `tune_bilm` a Trainer
    changes the biLM too, which is frozen otherwise.
    """

    model_type = "elmo"

    def __init__(
        self, model: dict[str, Any] | None = None, dropout: float = 0.5, tune_bilm: bool = False, **options: Any
    ) -> None:
        parsed = ModelConfig() if model is None else ModelConfig.from_dict(model)
        self.model = replace(parsed, softmax=None).to_dict()  # vectors are made here, words are not predicted
        self.dropout = dropout
        self.tune_bilm = tune_bilm
        self.hidden_size = parsed.vector_dim
        self.num_hidden_layers = parsed.encoder.num_layers
        for name in ("hidden_size", "num_hidden_layers"):
            options.pop(name, None)
        super().__init__(**options)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:
        """Read the config.json of transformers, or that of our own folders."""
        if "format" in config_dict:
            config_dict = {"model_type": cls.model_type, "model": config_dict["model"]}
        return super().from_dict(config_dict, **options)


class ElmoPreTrainedModel(PreTrainedModel):
    """What the model and its heads have in common: how they are opened."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear) and module is getattr(self, "classifier", None):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
        elif isinstance(module, ScalarMix):
            nn.init.zeros_(module.weights)
            nn.init.ones_(module.gamma)

    @classmethod
    def from_pretrained(cls, source: str | Path | None = None, *arguments: Any, **options: Any) -> Any:
        """Open a model of any format, or what a head's `save_pretrained` wrote; options as in transformers.

        Without a source, the default model.
        """
        if source is not None and _is_saved_by_transformers(source):
            model = super().from_pretrained(source, *arguments, **options)
        else:
            model = cls._from_elmo(source, **options)
        model.base_model.freeze()
        return model

    @classmethod
    def _from_elmo(cls, source: str | Path | None, **options: Any) -> Any:
        for name in ("dtype", "torch_dtype"):
            if options.get(name) not in (None, "auto", "float32", torch.float32):
                raise ConfigError(f"{name} was given, but ELMo is trained and run in float32 here; leave it out.")
        checkpoint = _open_checkpoint(source, options)
        config = options.get("config")
        if config is None:
            named = ("dropout", "tune_bilm", "num_labels", "id2label", "label2id", "problem_type")
            settings = {name: options[name] for name in named if name in options}
            config = ElmoConfig(model=checkpoint.config.to_dict(), **settings)
        model = cls(config)
        model.base_model.load_checkpoint(checkpoint)
        return model.eval()


class ElmoModel(ElmoPreTrainedModel):
    """Ids of words -> vectors in context. The top layer is `last_hidden_state`, all of them `hidden_states`."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        parsed = ModelConfig.from_dict(config.model)
        self.bilm = build_bilm(parsed)
        self._checkpoint: Checkpoint | None = None
        self._runtime = ModuleRuntime(self.bilm, parsed)
        if parsed.characters:
            self.register_buffer(
                "boundary_characters", torch.zeros(2, parsed.characters.max_characters, dtype=torch.long)
            )
            if parsed.characters.alphabet == "utf-8" and self.boundary_characters.device.type != "meta":
                rows = Utf8Alphabet(parsed.characters.max_characters).boundaries()
                self.boundary_characters.copy_(torch.from_numpy(rows))
        if parsed.words:
            self.register_buffer("boundary_words", torch.zeros(2, dtype=torch.long))
        self.post_init()
        self.freeze()

    def freeze(self) -> None:
        """Let gradients reach the biLM only if the configuration says so."""
        self.bilm.requires_grad_(self.config.tune_bilm)

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Take the weights of an opened model, and what `save_pretrained` writes beside them."""
        names = self.bilm.state_dict().keys()
        self.bilm.load_state_dict(to_tensors({name: checkpoint.weights[name] for name in names}))
        boundaries = Boundaries.of(checkpoint.indexer())
        for name, ids in (("characters", boundaries.characters), ("words", boundaries.words)):
            if ids is not None:
                getattr(self, f"boundary_{name}").copy_(ids)
        self._checkpoint = checkpoint

    def to_elmo(self) -> Elmo:
        """Return the model with its present weights, ready for embed, encode and save_pretrained."""
        weights = weights_of(self.bilm)
        if self._checkpoint is None:
            return Elmo(Checkpoint(ModelConfig.from_dict(self.config.model), weights))
        return Elmo(replace(self._checkpoint, weights={**self._checkpoint.weights, **weights}))

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> None:
        """Write a folder that Elmo.from_pretrained and this class open."""
        if options.pop("push_to_hub", False):
            raise InputError("push_to_hub is not possible here; use model.to_elmo().push_to_hub(name).")
        save_model(self.to_elmo(), Path(save_directory))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        word_input_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Return the layers of ids (B, T, C) of characters, or (B, T) of words: each (B, T, 2D), words only."""
        if attention_mask is None:
            attention_mask = torch.ones(input_ids.shape[:2], dtype=torch.long, device=input_ids.device)
        boundaries = Boundaries(getattr(self, "boundary_characters", None), getattr(self, "boundary_words", None))
        batch = unpad_sentences(boundaries, input_ids, attention_mask, word_input_ids)
        if self.config.tune_bilm and torch.is_grad_enabled():
            states, _ = run_bilm(self.bilm, batch)
        else:
            states = self._runtime.run(batch)
        layers = states.without_boundaries().layers
        asked = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutput(last_hidden_state=layers[-1], hidden_states=tuple(layers) if asked else None)
        return output if _wants_object(return_dict, self.config) else output.to_tuple()


class _Head(ElmoPreTrainedModel):
    """A learned mix of all layers, dropout and a linear classifier."""

    output_class: Any  # of transformers

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.elmo = ElmoModel(config)
        self.mix = ScalarMix(config.num_hidden_layers + 1)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()
        self.elmo.freeze()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        word_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Return the logits of words (B, T, labels) or sentences (B, labels), and the loss if labels are given."""
        if attention_mask is None:
            attention_mask = torch.ones(input_ids.shape[:2], dtype=torch.long, device=input_ids.device)
        layers = self.elmo(
            input_ids, attention_mask, word_input_ids, output_hidden_states=True, return_dict=True
        ).hidden_states
        vectors = self.mix(torch.stack(layers), attention_mask.bool())
        logits = self.classifier(self.dropout(self._pool(vectors, attention_mask)))
        output = self.output_class(
            loss=None if labels is None else self._loss(logits, labels),
            logits=logits,
            hidden_states=layers if output_hidden_states else None,
        )
        return output if _wants_object(return_dict, self.config) else output.to_tuple()

    def _pool(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return vectors

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


class ElmoForTokenClassification(_Head):
    """A label per word; -100 is no label."""

    output_class = TokenClassifierOutput


class ElmoForSequenceClassification(_Head):
    """A label per sentence, by the mean of its words' vectors; with one label, a number (regression)."""

    output_class = SequenceClassifierOutput

    def _pool(self, vectors: Tensor, mask: Tensor) -> Tensor:
        weights = mask.to(vectors.dtype)[..., None]
        return (vectors * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss that transformers would choose."""
        if self.config.problem_type == "multi_label_classification":
            return nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
        if self.config.problem_type == "regression" or self.config.num_labels == 1:
            return nn.functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
        return nn.functional.cross_entropy(logits, labels)


class ElmoTokenizer(PreTrainedTokenizer):
    """Texts, or lists of words with `is_split_into_words`, -> ids: one row of character ids per word.

    For a model that reads single characters of some scripts, these are the tokens, also of the words given.
    There are no special tokens: the model adds the boundaries of a sentence itself.
    """

    vocab_files_names = {  # noqa: RUF012
        "vocabulary_file": VOCABULARY_FILE,
        "characters_file": CHARACTERS_FILE,
        "aliases_file": ALIASES_FILE,
    }
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def __init__(
        self,
        model_config: dict[str, Any] | None = None,
        vocabulary_file: str | None = None,
        characters_file: str | None = None,
        aliases_file: str | None = None,
        **options: Any,
    ) -> None:
        parsed = ModelConfig() if model_config is None else ModelConfig.from_dict(model_config)
        self._lists = {VOCABULARY_FILE: _read_list(vocabulary_file), CHARACTERS_FILE: _read_list(characters_file)}
        self._lists[ALIASES_FILE] = _read_list(aliases_file)
        self._parsed = parsed
        self._indexer: Indexer | None = None
        super().__init__(model_config=replace(parsed, softmax=None).to_dict(), **options)
        self.model_max_length = options.get("model_max_length", int(1e30))

    @classmethod
    def from_pretrained(cls, source: str | Path | None = None, *arguments: Any, **options: Any) -> Any:
        """Open the tokenizer of a model of any format, or what `save_pretrained` wrote."""
        if source is not None and (Path(source) / "tokenizer_config.json").is_file():
            return super().from_pretrained(source, *arguments, **options)
        checkpoint = _open_checkpoint(source, options)
        tokenizer = cls(checkpoint.config.to_dict())
        if checkpoint.config.words:
            tokenizer._lists[VOCABULARY_FILE] = list(checkpoint.vocabulary or ())
        tokenizer._lists[CHARACTERS_FILE] = list(checkpoint.characters or ())
        tokenizer._lists[ALIASES_FILE] = [f"{one} {other}" for one, other in checkpoint.aliases.items()]
        return tokenizer

    @property
    def indexer(self) -> Indexer:
        """What turns words into ids."""
        if self._indexer is None:
            config = self._parsed
            alphabet: Utf8Alphabet | DictionaryAlphabet | None = None
            if config.characters and config.characters.alphabet == "utf-8":
                alphabet = Utf8Alphabet(config.characters.max_characters)
            elif config.characters:
                alphabet = DictionaryAlphabet(self._lists[CHARACTERS_FILE], config.characters.max_characters)
            vocabulary = None
            if config.words:
                vocabulary = Vocabulary(
                    self._lists[VOCABULARY_FILE],
                    begin=config.begin_word, end=config.end_word, unknown=config.unknown_word,
                )  # fmt: skip
            longest = config.words.max_word_length if config.words else None
            aliases = dict(line.split(" ") for line in self._lists[ALIASES_FILE])
            tokenization = Tokenization(config.tokenization, aliases)
            self._indexer = Indexer(alphabet, vocabulary, max_word_length=longest, tokenization=tokenization)
        return self._indexer

    @property
    def vocab_size(self) -> int:
        """The number of ids a word, or a character of it, can have."""
        config = self._parsed
        if config.characters:
            return config.characters.num_characters
        assert config.words is not None
        return config.words.num_words

    def get_vocab(self) -> dict[str, int]:
        """Return the listed words or characters and their ids; none for bytes."""
        listed = self._lists[CHARACTERS_FILE if self._parsed.characters else VOCABULARY_FILE]
        return {entry: number for number, entry in enumerate(listed)}

    def tokenize(self, text: str, **_: Any) -> list[str]:
        """Return the words of a text."""
        return [word.text for word in self.indexer.tokenization(text)]

    def __call__(
        self,
        text: Any,
        *,
        is_split_into_words: bool = False,
        padding: bool | str = False,
        truncation: bool | str = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        pad_to_multiple_of: int | None = None,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
        **_: Any,
    ) -> Any:
        """Return the ids of one text or of a list of texts, each a list of words with `is_split_into_words`."""
        single = isinstance(text, str) or (is_split_into_words and bool(text) and isinstance(text[0], str))
        texts = [text] if single else list(text)
        sentences: list[list[str]] = []
        offsets: list[list[tuple[int, int]]] = []
        for position, given in enumerate(texts):
            if is_split_into_words and not isinstance(given, str):
                pieces = [self._split_word(word) for word in given]
                sentences.append([piece.text for row in pieces for piece in row])
                offsets.append([(piece.start, piece.end) for row in pieces for piece in row])
            elif isinstance(given, str) and not is_split_into_words:
                words = self.indexer.tokenization(given)
                sentences.append([word.text for word in words])
                offsets.append([(word.start, word.end) for word in words])
            else:
                raise InputError(
                    f"Text {position} is {given!r:.60}; give a text, or a list of words with is_split_into_words=True."
                )
        cut = max_length if truncation else None
        features = []
        for sentence, places in zip(sentences, offsets, strict=True):
            padded = pad_sentences(self.indexer, [sentence[:cut]])
            feature = {name: tensor[0].tolist() for name, tensor in padded.items()}
            if return_offsets_mapping:
                feature["offset_mapping"] = places[:cut]
            if return_special_tokens_mask:
                feature["special_tokens_mask"] = [0] * len(sentence[:cut])
            features.append(feature)
        if not padding and not return_tensors:
            whole = {name: [feature[name] for feature in features] for name in features[0]} if features else {}
            return BatchEncoding({name: values[0] for name, values in whole.items()} if single else whole)
        length = max_length if padding == "max_length" else None
        return self.pad(
            features, padding=bool(padding) or len(features) == 1, max_length=length,
            pad_to_multiple_of=pad_to_multiple_of, return_tensors=return_tensors,
        )  # fmt: skip

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
        **_: Any,
    ) -> Any:
        """Pad sentences to one length, on the right; what is not one value per word stays as it is."""
        features = encoded_inputs
        if not isinstance(features, Sequence):
            names = list(features)
            features = [dict(zip(names, values, strict=True)) for values in zip(*features.values(), strict=True)]
        features = [{name: as_plain(value) for name, value in feature.items()} for feature in features]
        num_words = [len(feature["input_ids"]) for feature in features]
        length = max(num_words) if max_length is None or padding != "max_length" else max_length
        if pad_to_multiple_of:
            length = -(-length // pad_to_multiple_of) * pad_to_multiple_of
        word = [0] * self._parsed.characters.max_characters if self._parsed.characters else 0
        filling = {"input_ids": word, "word_input_ids": 0, "attention_mask": 0, "special_tokens_mask": 1,
                   "offset_mapping": (0, 0)}  # fmt: skip
        found: dict[str, list[Any]] = {}
        for feature, count in zip(features, num_words, strict=True):
            feature.setdefault("attention_mask", [1] * count)
            for name, value in feature.items():
                more = [filling[name]] * (length - count) if padding and name in filling else []
                found.setdefault(name, []).append([*value, *more] if name in filling else value)
        return BatchEncoding(found, tensor_type=return_tensors)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Write the lists of words and characters that the ids refer to, if there are any."""
        written = []
        for name, entries in self._lists.items():
            if entries:
                path = Path(save_directory) / (f"{filename_prefix}-{name}" if filename_prefix else name)
                path.write_bytes(format_lines(entries))
                written.append(str(path))
        return tuple(written)

    def _split_word(self, word: str) -> list[Word]:
        """Return the tokens of a given word with their offsets inside it."""
        tokenization = self.indexer.tokenization
        return (tokenization(word) if tokenization.reads_characters else []) or [Word(word, 0, len(word))]

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        return self.tokenize(text)


def _open_checkpoint(source: str | Path | None, options: dict[str, Any]) -> Checkpoint:
    asked = {name: options[name] for name in _OPENING if options.get(name) is not None}
    return Elmo.from_pretrained(source, **asked).checkpoint()


def _wants_object(return_dict: bool | None, config: Any) -> bool:
    return bool(getattr(config, "return_dict", True) if return_dict is None else return_dict)


def _read_list(path: str | None) -> list[str]:
    return [] if path is None else parse_lines(Path(path).read_bytes())


def _is_saved_by_transformers(source: str | Path) -> bool:
    """Whether the weights lie in the files of transformers, on disk or on the hub."""
    names = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME)
    if Path(source).expanduser().exists():
        return any((Path(source).expanduser() / name).is_file() for name in names)
    if str(source).count("/") != 1:
        return False
    quiet = ("missing_entries", "connection_errors", "gated_repo")
    options = {f"_raise_exceptions_for_{fault}": False for fault in quiet}
    return any(cached_file(str(source), name, **options) is not None for name in names)


AutoConfig.register("elmo", ElmoConfig)
AutoModel.register(ElmoConfig, ElmoModel)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification)
AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification)
AutoTokenizer.register(ElmoConfig, slow_tokenizer_class=ElmoTokenizer)
