"""transformers: ElmoConfig, ElmoModel, ElmoTokenizer and two heads, registered with the Auto classes on import.

A token is a word, so labels of words need no alignment. `from_pretrained` opens all formats of Elmo.from_pretrained.
`ElmoModel.save_pretrained` writes our own format, the heads write the files of transformers.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.checkpoint.checkpoint import Checkpoint, build_vocabulary, make_indexer
from elmo.checkpoint.folder import ALIASES_FILE, CHARACTERS_FILE, VOCABULARY_FILE, named_word_lists
from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.source import DEFAULT_MODEL
from elmo.config import ModelConfig
from elmo.device import ModuleRuntime
from elmo.errors import ConfigError, InputError
from elmo.integrations import missing_package, save_model
from elmo.model import Elmo
from elmo.nn.batch import pad_sentences, run_bilm, unpad_sentences
from elmo.nn.build import build_bilm, to_tensors, weights_of
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.batch import BEGIN_ROW, END_ROW, Indexer, TokenIds
from elmo.text.characters import Utf8Alphabet
from elmo.text.sentence_input import as_plain
from elmo.text.tokenize import Word
from elmo.text.vocabulary import format_lines, parse_lines

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
    from transformers.utils.generic import can_return_tuple
except ImportError as error:
    raise missing_package("transformers", "transformers") from error


class ElmoConfig(PretrainedConfig):
    """The configuration of a model and of a head.

    `model` is a dictionary as returned by ModelConfig.to_dict, and `dropout` is applied in the heads. The biLM is
    frozen unless `tune_bilm` is set.
    """

    model_type = "elmo"

    def __init__(
        self, model: dict[str, Any] | None = None, dropout: float = 0.5, tune_bilm: bool = False, **options: Any
    ) -> None:
        model_config = ModelConfig() if model is None else ModelConfig.from_dict(model)
        self.model = replace(model_config, softmax=None).to_dict()  # words are not predicted
        self.dropout = dropout
        self.tune_bilm = tune_bilm
        self.hidden_size = model_config.vector_dim
        self.num_hidden_layers = model_config.encoder.num_layers
        super().__init__(**options)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:
        """Read the config.json of transformers or of our own format."""
        if "format" in config_dict:
            config_dict = {"model_type": cls.model_type, "model": config_dict["model"]}
        return super().from_dict(config_dict, **options)


class ElmoPreTrainedModel(PreTrainedModel):
    """The base class of the model and its heads."""

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
        """Open a model of any format, by default the included one, or a folder written by a head's `save_pretrained`.

        The options are those of transformers.
        """
        if source is not None and _is_saved_by_transformers(source):
            model = super().from_pretrained(source, *arguments, **options)
        else:
            for name in ("dtype", "torch_dtype"):
                if options.get(name) not in (None, "auto", "float32", torch.float32):
                    raise ConfigError(f"{name} was given, but ELMo is trained and run in float32 here; leave it out.")
            checkpoint = _open_checkpoint(source, options)
            names = ("dropout", "tune_bilm", "num_labels", "id2label", "label2id", "problem_type")
            settings = {name: options[name] for name in names if name in options}
            config = options.get("config")
            model = cls(ElmoConfig(model=checkpoint.config.to_dict(), **settings) if config is None else config).eval()
            model.base_model.load_checkpoint(checkpoint)
        model.base_model.freeze()
        return model


class ElmoModel(ElmoPreTrainedModel):
    """The biLM. `last_hidden_state` is the top layer, and `hidden_states` are all layers."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        model_config = ModelConfig.from_dict(config.model)
        self.bilm = build_bilm(model_config)
        self._checkpoint: Checkpoint | None = None
        self._runtime = ModuleRuntime(self.bilm, model_config)
        if model_config.characters:
            alphabet = Utf8Alphabet(model_config.characters.max_characters)  # of others: load_checkpoint
            self.register_buffer("boundary_characters", torch.from_numpy(alphabet.boundaries()))
        if model_config.words:
            self.register_buffer("boundary_words", torch.zeros(2, dtype=torch.long))
        self.post_init()
        self.freeze()

    def freeze(self) -> None:
        """Freeze the biLM unless `tune_bilm` is set."""
        self.bilm.requires_grad_(self.config.tune_bilm)

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Load the weights of a checkpoint, and keep its word lists and components for `save_pretrained`."""
        names = self.bilm.state_dict().keys()
        self.bilm.load_state_dict(to_tensors({name: checkpoint.weights[name] for name in names}))
        boundaries = checkpoint.indexer().look_up([BEGIN_ROW, END_ROW])
        for name, ids in boundaries._asdict().items():
            if ids is not None:
                getattr(self, f"boundary_{name}").copy_(torch.from_numpy(ids))
        self._checkpoint = checkpoint

    def to_elmo(self) -> Elmo:
        """Return an Elmo with the current weights."""
        weights = weights_of(self.bilm)
        if self._checkpoint is None:
            return Elmo(Checkpoint(ModelConfig.from_dict(self.config.model), weights))
        return Elmo(replace(self._checkpoint, weights={**self._checkpoint.weights, **weights}))

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> None:
        """Write a folder that Elmo.from_pretrained and this class open."""
        if options.pop("push_to_hub", False):
            raise InputError("push_to_hub is not supported here; use model.to_elmo().push_to_hub(name).")
        save_model(self.to_elmo(), Path(save_directory))

    @can_return_tuple
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, word_input_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> Any:  # fmt: skip
        """Return the layers (B, T, 2D) for character ids (B, T, C) or word ids (B, T), without boundaries."""
        if attention_mask is None:
            attention_mask = input_ids.new_ones(input_ids.shape[:2])
        buffers = (getattr(self, f"boundary_{name}", None) for name in TokenIds._fields)
        boundaries = TokenIds(*(None if buffer is None else buffer.cpu().numpy() for buffer in buffers))
        batch = unpad_sentences(boundaries, input_ids, attention_mask, word_input_ids)
        if self.config.tune_bilm and torch.is_grad_enabled():
            states, _ = run_bilm(self.bilm, batch)
        else:
            states = self._runtime.run(batch)
        layers = states.without_boundaries().layers
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        hidden_states = tuple(layers) if output_hidden_states else None
        return BaseModelOutput(last_hidden_state=layers[-1], hidden_states=hidden_states)


class _Head(ElmoPreTrainedModel):
    """A scalar mix of all layers, dropout and a linear classifier."""

    output_class: Any  # of transformers

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.elmo = ElmoModel(config)
        self.mix = ScalarMix(config.num_hidden_layers + 1)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()
        self.elmo.freeze()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None,
        word_input_ids: Tensor | None = None,
    ) -> Any:  # fmt: skip
        """Return the logits of words (B, T, labels) or sentences (B, labels), and the loss if labels are given."""
        mask = input_ids.new_ones(input_ids.shape[:2]) if attention_mask is None else attention_mask
        layers = self.elmo(input_ids, mask, word_input_ids, output_hidden_states=True, return_dict=True).hidden_states
        vectors = self.mix(torch.stack(layers), mask.bool())
        logits = self.classifier(self.dropout(self._pool(vectors, mask)))
        loss = None
        if labels is not None:  # transformers chooses the loss function by the name of the class
            loss = self.loss_function(logits=logits, pooled_logits=logits, labels=labels, config=self.config)
        return self.output_class(loss=loss, logits=logits)

    def _pool(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return vectors


class ElmoForTokenClassification(_Head):
    """Predicts one label per word; the label -100 is ignored."""

    output_class = TokenClassifierOutput


class ElmoForSequenceClassification(_Head):
    """Predicts one label per sentence from the mean of its words' vectors; with one label, a number (regression)."""

    output_class = SequenceClassifierOutput

    def _pool(self, vectors: Tensor, mask: Tensor) -> Tensor:
        weights = mask.to(vectors.dtype)[..., None]
        return (vectors * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


class ElmoTokenizer(PreTrainedTokenizer):
    """Converts texts, or lists of words with `is_split_into_words`, to ids: one row of character ids per word.

    If the characters of some scripts are tokens of the model, given words are split into them too. There are no
    special tokens: the model adds the sentence boundaries itself.
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
        config = ModelConfig() if model_config is None else ModelConfig.from_dict(model_config)
        paths = {VOCABULARY_FILE: vocabulary_file, CHARACTERS_FILE: characters_file, ALIASES_FILE: aliases_file}
        self._lists = {name: parse_lines(Path(path).read_bytes()) if path else [] for name, path in paths.items()}
        self._model_config = config
        super().__init__(model_config=replace(config, softmax=None).to_dict(), **options)
        self.model_max_length = options.get("model_max_length", int(1e30))

    @classmethod
    def from_pretrained(cls, source: str | Path | None = None, *arguments: Any, **options: Any) -> Any:
        """Open the tokenizer of a model of any format, or a folder written by `save_pretrained`."""
        if source is not None and (Path(source) / "tokenizer_config.json").is_file():
            return super().from_pretrained(source, *arguments, **options)
        checkpoint = _open_checkpoint(source, options)
        tokenizer, entries = cls(checkpoint.config.to_dict()), named_word_lists(checkpoint)
        if not checkpoint.config.words:  # the vocabulary is that of the softmax
            entries.pop(VOCABULARY_FILE, None)
        tokenizer._lists = {name: list(entries.get(name, ())) for name in tokenizer._lists}
        return tokenizer

    @cached_property
    def indexer(self) -> Indexer:
        """The indexer that turns words into ids."""
        words = build_vocabulary(self._lists[VOCABULARY_FILE], self._model_config) if self._model_config.words else None
        aliases = dict(line.split(" ") for line in self._lists[ALIASES_FILE])
        return make_indexer(self._model_config, words, self._lists[CHARACTERS_FILE], aliases)

    @property
    def vocab_size(self) -> int:
        """The number of character ids, or of words for a word-level model."""
        config = self._model_config
        return config.characters.num_characters if config.characters else len(self._lists[VOCABULARY_FILE])

    def get_vocab(self) -> dict[str, int]:
        """Return the words or characters and their ids; empty if the characters are bytes."""
        entries = self._lists[CHARACTERS_FILE if self._model_config.characters else VOCABULARY_FILE]
        return {entry: number for number, entry in enumerate(entries)}

    def tokenize(self, text: str, **_: Any) -> list[str]:
        """Return the tokens of a text."""
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
        return_offsets_mapping: bool = False,
        **_: Any,
    ) -> Any:
        """Return the ids of one text or of a list of texts, each a list of words with `is_split_into_words`."""
        is_single = isinstance(text, str) or (is_split_into_words and bool(text) and isinstance(text[0], str))
        features = []
        for sentence in [text] if is_single else text:
            if isinstance(sentence, str) is is_split_into_words:
                raise InputError(f"{sentence!r:.60} is not a text, or not a list of words with is_split_into_words.")
            tokens = self._split(sentence)[: max_length if truncation else None]
            padded = pad_sentences(self.indexer, [[token.text for token in tokens]])
            feature = {name: tensor[0].tolist() for name, tensor in padded.items()}
            if return_offsets_mapping:
                feature["offset_mapping"] = [(token.start, token.end) for token in tokens]
            features.append(feature)
        if is_single and not padding and not return_tensors:
            return BatchEncoding(features[0])
        return self.pad(
            features, padding=padding or len(features) == 1, max_length=max_length, return_tensors=return_tensors
        )

    def _split(self, sentence: str | Sequence[str]) -> list[Word]:
        """Return the tokens of a text, or of a list of words, whose offsets are relative to each word."""
        tokenization = self.indexer.tokenization
        if isinstance(sentence, str):
            return list(tokenization(sentence))
        tokens: list[Word] = []
        for word in sentence:
            characters = tokenization(word) if tokenization.reads_characters else []
            tokens += characters or [Word(word, 0, len(word))]
        return tokens

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        return_tensors: str | None = None,
        **_: Any,
    ) -> Any:
        """Pad sentences on the right to the same length; features that are not per word are unchanged."""
        features = encoded_inputs
        if not isinstance(features, Sequence):
            names = list(features)
            features = [dict(zip(names, values, strict=True)) for values in zip(*features.values(), strict=True)]
        lengths = [len(feature["input_ids"]) for feature in features]
        size = max_length if max_length is not None and padding == "max_length" else max(lengths, default=0)
        characters = self._model_config.characters
        padding_id: Any = [0] * characters.max_characters if characters else 0
        pad_values = {"input_ids": padding_id, "word_input_ids": 0, "attention_mask": 0, "offset_mapping": (0, 0)}
        padded: dict[str, list[Any]] = {}
        for feature, length in zip(features, lengths, strict=True):
            for name, value in {"attention_mask": [1] * length, **feature}.items():
                value = as_plain(value)
                if padding and name in pad_values:
                    value = [*value, *[pad_values[name]] * (size - length)]
                padded.setdefault(name, []).append(value)
        return BatchEncoding(padded, tensor_type=return_tensors)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Write the lists of words, characters and aliases that the tokenizer has."""
        paths = []
        for name, entries in self._lists.items():
            if entries:
                paths.append(Path(save_directory) / (f"{filename_prefix}-{name}" if filename_prefix else name))
                paths[-1].write_bytes(format_lines(entries))
        return tuple(map(str, paths))


def _open_checkpoint(source: str | Path | None, options: dict[str, Any]) -> Checkpoint:
    names = ("format", "revision", "local_files_only")
    arguments = {name: options[name] for name in names if name in options}
    return open_checkpoint(DEFAULT_MODEL if source is None else source, **arguments)


def _is_saved_by_transformers(source: str | Path) -> bool:
    """Return whether a folder or hub repository has weights saved by transformers."""
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
