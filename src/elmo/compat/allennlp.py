"""AllenNLP's Elmo, batch_to_ids and ElmoEmbedder on this engine.

`from elmo.compat.allennlp import Elmo, batch_to_ids, ElmoEmbedder` replaces the imports from
allennlp.modules.elmo and allennlp.commands.elmo.
"""

import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo.checkpoint.source import BASE_ADDRESS, OFFICIAL
from elmo.compat.engine import Array, BatchReader, OldEmbedder, check_batch_size, open_files, open_model
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.files.durable import atomic_write
from elmo.layer import ElmoLayer
from elmo.nn.batch import WORDS_AT_ONCE, Boundaries, pad_sentences, unpad_sentences
from elmo.nn.bilm import BiLM, TokenEncoder
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW, CharBatch, Indexer
from elmo.text.characters import Alphabet, Utf8Alphabet
from elmo.text.sentence_input import as_plain, check_words, read_word_lists

__all__ = ["Elmo", "ElmoEmbedder", "ElmoRepresentations", "batch_to_ids"]

OutputFormat = Literal["all", "top", "average"]

DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE = (BASE_ADDRESS + path for path in OFFICIAL["original"])
DEFAULT_BATCH_SIZE = 64
LAYER_NORM_EPSILON = 1e-13
LITERAL_BOUNDARIES = ("<S>", "</S>")
_BOUNDARY_ROWS = Boundaries(None, torch.tensor([BEGIN_ROW, END_ROW]))  # of cached words
_LITERAL = Indexer(Utf8Alphabet(), None, literal_boundaries=LITERAL_BOUNDARIES)
# The entries of a state dict that AllenNLP saved, and their names here.
_SAVED_NAMES = (
    (r"_token_embedder\._char_embedding_weights", "tokens.characters.embedding.weight"),
    (r"_token_embedder\.char_conv_(\d+)\.(\w+)", r"tokens.characters.convolutions.\1.\2"),
    (r"_token_embedder\._highways\._layers\.(\d+)\.(\w+)", r"tokens.characters.highways.\1.\2"),
    (r"_token_embedder\._projection\.(\w+)", r"tokens.projection.\1"),
    (r"_elmo_lstm\.forward_layer_(\d+)\.(\w+\.\w+)", r"left_to_right.layers.\1.\2"),
    (r"_elmo_lstm\.backward_layer_(\d+)\.(\w+\.\w+)", r"right_to_left.layers.\1.\2"),
)
_SAVED_LSTM_NAMES = {
    "input_linearity.weight": "input_weight",
    "state_linearity.weight": "state_weight",
    "state_linearity.bias": "bias",
    "state_projection.weight": "projection_weight",
}
logger = logging.getLogger(__name__)


class ElmoRepresentations(TypedDict):
    """The result of a forward pass: each mix (..., T, 2D), and the mask (..., T), True at words."""

    elmo_representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """Mixes of a biLM's layers for a task network, from character ids.

    While requires_grad is False the state_dict holds the mixes only; one that AllenNLP saved can be loaded too.
    `scalar_mix_0`, `scalar_mix_1`, ... are the mixes by AllenNLP's names. `stateful=False` starts every batch
    from a zero state, so that the same sentence gets the same vectors.
    """

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoRepresentations:
            """Declare the types of forward, which PyTorch's own signature does not."""

    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        stateful: bool = True,
    ) -> None:
        """`vocab_to_cache`: words that are encoded only once; `word_inputs` of forward are ids into this list."""
        super().__init__()
        count = num_output_representations
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigError(f"num_output_representations is {count!r}; it must be a whole number, 1 or more.")
        # Both may be NumPy arrays.
        mix_weights = None if scalar_mix_parameters is None else list(as_plain(scalar_mix_parameters))
        cached_words = [] if vocab_to_cache is None else list(as_plain(vocab_to_cache))
        check_words(cached_words, "vocab_to_cache")
        model = open_model(open_files(options_file, weight_file), stateful=False)
        if model.config.characters is None or model.indexer.alphabet is None:
            raise CheckpointError(
                f"{weight_file} is a model of whole words and takes no character ids; use Elmo.from_pretrained."
            )
        if mix_weights is not None and len(mix_weights) != model.num_layers:
            raise ConfigError(
                f"scalar_mix_parameters has {len(mix_weights)} values, but this model has {model.num_layers} layers."
            )
        self._alphabet = model.indexer.alphabet
        self._num_characters = model.config.characters.num_characters
        self._keep_sentence_boundaries = keep_sentence_boundaries
        # The boundaries take part in the layer norm, so they are cut off after mixing.
        self._layer = ElmoLayer(
            model, num_mixes=count, dropout=dropout, tune_bilm=True, layer_norm=do_layer_norm,
            keep_boundaries=True, mix_weights=mix_weights, learn_mixes=mix_weights is None,
        )  # fmt: skip
        bilm = cast(BiLM, self._layer.bilm).requires_grad_(requires_grad)
        for number, mix in enumerate(self._layer.mixes):
            assert isinstance(mix, ScalarMix)
            mix.epsilon = LAYER_NORM_EPSILON
            setattr(self, f"scalar_mix_{number}", _SavedMix(mix))
        if cached_words:
            bilm = self._layer.bilm = _with_cached_words(bilm, cached_words)
        if not requires_grad:
            self._layer.register_state_dict_post_hook(_drop_frozen_bilm)  # type: ignore[no-untyped-call]
            self._layer.register_load_state_dict_pre_hook(_add_frozen_bilm)  # type: ignore[no-untyped-call]
        self._num_cached_words = len(cached_words)
        self._reader = BatchReader(bilm, model.config, stateful=stateful, gradients=requires_grad)
        self.register_load_state_dict_pre_hook(_read_saved_names)  # type: ignore[no-untyped-call]

    def get_output_dim(self) -> int:
        """2·D: the length of a word's vector."""
        return self._layer.output_dim

    def reset_state(self) -> None:
        """Set the LSTM state to zero."""
        self._reader.reset_state()

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoRepresentations:
        """Mix the layers for ids of characters (..., T, 50), or for ids of words of `vocab_to_cache` (..., T).

        The id 0 is padding. If both are given the words are used, unless one of them is not cached.
        """
        batch, shape = self._read_inputs(inputs, word_inputs)
        output = self._layer.mix(self._reader.read(batch))
        mixes, mask = list(output.mixes), output.mask
        if not self._keep_sentence_boundaries:
            mask = mask[:, 2:]
            mixes = [mix[:, 1:-1] * mask[..., None] for mix in mixes]
        return {
            "elmo_representations": [mix.reshape(*shape, *mix.shape[1:]) for mix in mixes],
            "mask": mask.reshape(*shape, mask.shape[1]),
        }

    def _read_inputs(self, inputs: Tensor | None, word_inputs: Tensor | None) -> tuple[CharBatch, torch.Size]:
        """Return the batch and the leading dimensions of the inputs."""
        if word_inputs is not None and not self._num_cached_words:
            logger.warning("word_inputs was given to a model without vocab_to_cache; inputs is used instead.")
        elif word_inputs is not None:
            ids = _flatten(word_inputs, 2, "word_inputs", "(sentences, words)")
            if not ids.numel() or 0 <= int(ids.min()) <= int(ids.max()) < self._num_cached_words:
                return _unpad(ids + FIRST_WORD_ROW, ids > 0, _BOUNDARY_ROWS), word_inputs.shape[:-1]
            if inputs is None:
                raise InputError(
                    f"word_inputs has ids from {int(ids.min())} to {int(ids.max())}, but vocab_to_cache has "
                    f"{self._num_cached_words} words and there are no character ids in inputs to use instead."
                )
        if inputs is None:
            raise InputError("inputs is None; give character ids, or word_inputs to a model with vocab_to_cache.")
        ids = _flatten(inputs, 3, "inputs", "(sentences, words, 50), as batch_to_ids makes it")
        return _batch_of_characters(ids, self._alphabet, self._num_characters), inputs.shape[:-2]


class _CachedTokenEncoder(TokenEncoder):
    """Cached vectors of words by number, the boundaries first; the character network for all others."""

    def __init__(self, encoder: TokenEncoder, vectors: Tensor, *, learned: bool) -> None:
        super().__init__(None, encoder.characters, encoder.projection)
        self.cached = nn.Parameter(vectors, requires_grad=learned)

    def forward(self, char_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
        """(U, C) or (U,) -> (U, D)."""
        return super().forward(char_ids, None) if word_ids is None else self.cached[word_ids]


def _with_cached_words(bilm: BiLM, words: Sequence[str]) -> BiLM:
    ids = batch_to_ids([[*LITERAL_BOUNDARIES, *words]])[0]
    with torch.no_grad():
        vectors = torch.cat([bilm.tokens(part, None) for part in torch.split(ids, WORDS_AT_ONCE)])
    learned = any(parameter.requires_grad for parameter in bilm.parameters())
    tokens = _CachedTokenEncoder(bilm.tokens, vectors, learned=learned)
    return BiLM(tokens, bilm.left_to_right, bilm.right_to_left, bilm.softmax, bilm.right_to_left_softmax).eval()


def _flatten(ids: Tensor, rank: int, name: str, expected: str) -> Tensor:
    if not isinstance(ids, Tensor) or ids.dim() < rank or ids.is_floating_point():
        came = f"{ids.dtype} of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise InputError(f"{name} is {came}; a tensor of whole numbers {expected} was expected.")
    flat = ids.flatten(0, ids.dim() - rank).long()
    if not len(flat):
        raise InputError(f"{name} has the shape {tuple(ids.shape)}; give at least one sentence.")
    return flat


# Character ids


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Return the character ids of sentences that are lists of words, (B, T, 50), zero where padded.

    The literal words <S> and </S> become boundaries, as in the original.
    """
    return pad_sentences(_LITERAL, read_word_lists(batch))["input_ids"]


def _batch_of_characters(ids: Tensor, alphabet: Alphabet, num_characters: int) -> CharBatch:
    """Return the batch of distinct words for (B, T, C) ids; a word of zeros is padding."""
    if ids.shape[-1] != alphabet.max_characters:
        raise InputError(
            f"inputs has {ids.shape[-1]} character ids per word, but this model has {alphabet.max_characters}; "
            "make the ids with batch_to_ids."
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < num_characters:
        raise InputError(
            f"inputs has ids from {int(ids.min())} to {int(ids.max())}; character ids are 0 to "
            f"{num_characters - 1}, so make them with batch_to_ids."
        )
    return _unpad(ids, (ids > 0).any(dim=-1), Boundaries(torch.from_numpy(alphabet.boundaries()), None))


def _unpad(ids: Tensor, mask: Tensor, boundaries: Boundaries) -> CharBatch:
    # A row of padding only still reads both boundaries, as in the original.
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        row = int((mask[:, 1:] & ~mask[:, :-1]).any(dim=1).nonzero()[0])
        raise InputError(f"Sentence {row} has padding before a word; padding may only follow the words.")
    return unpad_sentences(boundaries, ids, mask)


# State dicts that AllenNLP saved


class _SavedMix:
    """One mix by AllenNLP's names; the tensors are views, so writing into them changes the mix."""

    def __init__(self, mix: ScalarMix) -> None:
        self._mix = mix

    @property
    def scalar_parameters(self) -> tuple[Tensor, ...]:
        """The weights before the softmax, one tensor (1,) per layer."""
        return torch.split(self._mix.weights, 1)

    @property
    def gamma(self) -> Tensor:
        """The scale, (1,)."""
        return self._mix.gamma.reshape(1)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters for an optimizer: the weights as one tensor, and the scale."""
        return self._mix.parameters()


def _read_saved_names(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace AllenNLP's entries under `prefix` by ours; a strict load names the unknown ones."""
    assert isinstance(module, Elmo)
    layer = module._layer
    for number, mix in enumerate(layer.mixes):
        assert isinstance(mix, ScalarMix)
        _rename_mix(f"{prefix}scalar_mix_{number}", f"{prefix}_layer.mixes.{number}", len(mix.weights), state)
    saved = f"{prefix}_elmo_lstm."
    for key in [key for key in state if key.startswith(saved)]:
        if converted := _convert_saved(cast(BiLM, layer.bilm), key.removeprefix(saved), state[key]):
            del state[key]
            state.update({f"{prefix}_layer.bilm.{name}": tensor for name, tensor in converted.items()})


def _drop_frozen_bilm(layer: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    for name in [name for name in state if name.startswith(f"{prefix}bilm.")]:
        del state[name]


def _add_frozen_bilm(layer: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    if not any(name.startswith(f"{prefix}bilm.") for name in state):
        # The weights stay what they are; without an entry a strict load would call them missing.
        bilm = cast(BiLM, layer.bilm)
        state.update({f"{prefix}bilm.{name}": tensor for name, tensor in bilm.state_dict().items()})


def _rename_mix(theirs: str, ours: str, num_layers: int, state: dict[str, Any]) -> None:
    names = [name for name in state if name.startswith(f"{theirs}.scalar_parameters.")]
    if names:
        wanted = [f"{theirs}.scalar_parameters.{layer}" for layer in range(num_layers)]
        if set(names) != set(wanted):
            raise CheckpointError(
                f"The state dict has {len(names)} weights {theirs}.scalar_parameters, but this model has "
                f"{num_layers} layers; load a state dict of the same model."
            )
        state[f"{ours}.weights"] = torch.cat([state.pop(name).reshape(1) for name in wanted])
    if f"{theirs}.gamma" in state:
        state[f"{ours}.gamma"] = state.pop(f"{theirs}.gamma").reshape(())


def _convert_saved(bilm: BiLM, theirs: str, saved: Tensor) -> dict[str, Tensor]:
    """Return the entries of ours that are made of one of theirs; none if it is unknown."""
    cached = getattr(bilm.tokens, "cached", None)
    if theirs == "_word_embedding.weight" and isinstance(cached, Tensor):
        # AllenNLP does not save the vectors of the boundaries, which are our first two.
        return {"tokens.cached": torch.cat([cached[:2].to(saved), saved])}
    matches = ((re.fullmatch(pattern, theirs), ours) for pattern, ours in _SAVED_NAMES)
    name = next((match.expand(ours) for match, ours in matches if match), "")
    if name == "tokens.characters.embedding.weight" and bilm.tokens.characters is not None:
        # Files with 262 characters have one row that is never used.
        return {name: saved[: bilm.tokens.characters.embedding.num_embeddings]}
    if name.startswith("tokens.characters.highways"):
        stem, _, kind = name.rpartition(".")
        half = len(saved) // 2
        # Their gate passes the input, ours the transformed input.
        return {f"{stem}.transform.{kind}": saved[:half], f"{stem}.gate.{kind}": -saved[half:]}
    if name.endswith("state_linearity.bias"):
        cell_dim, saved = len(saved) // 4, saved.clone()
        saved[cell_dim : 2 * cell_dim] -= 1.0  # the forget bias, which we add to the learned one
    for their_leaf, our_leaf in _SAVED_LSTM_NAMES.items():
        name = name.replace(their_leaf, our_leaf)
    return {name: saved} if name else {}


# ElmoEmbedder


class ElmoEmbedder(OldEmbedder):
    """All layers of sentences that are lists of words.

    `stateful=False` starts every sentence from a zero state, so that it gets the same vectors each time.
    """

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        stateful: bool = True,
    ) -> None:
        if not isinstance(cuda_device, int):
            raise ConfigError(f"cuda_device is {cuda_device!r}; give the number of a GPU, or -1 for none.")
        self.cuda_device = cuda_device
        device = "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"
        super().__init__(stateful=stateful)
        self._open(open_files(options_file, weight_file), device)

    def embed_sentence(self, sentence: Sequence[str]) -> Array:
        """Return all layers of one sentence, (L+1, T, 2D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Array]:
        """Return all layers of each sentence, (L+1, T, 2D); of an empty one, (L+1, 0, 2D)."""
        sentences = read_word_lists(batch)
        if not any(sentences):
            # The original does not run its network here, so the state stays as it is.
            empty = np.zeros((self._model.num_layers, 0, self._model.dim), dtype=np.float32)
            return [empty.copy() for _ in sentences]
        arrays: list[Array] = self._model.embed(sentences, layers="all")
        return arrays

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Array]:
        """Yield all layers of each sentence; `batch_size` sentences are computed at a time."""
        check_batch_size(batch_size)
        remaining = iter(sentences)
        while batch := list(itertools.islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str] | str | Path,
        output_file_path: str | Path,
        output_format: OutputFormat = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a file with one sentence per line, words separated by spaces, to an HDF5 file.

        The input is an open text file, which is closed at the end, or the path of a UTF-8 file. Datasets are named
        by line number, "0", "1", ...; that of a blank line is empty. Unless `forget_sentences`, the dataset
        `sentence_to_index` holds a JSON object from sentence to name, the last one of equal sentences.
        `use_sentence_keys` names datasets by their sentences.
        """
        choose: dict[str, Callable[[Array], Array]] = {
            "all": lambda array: array,
            "top": lambda array: array[-1],
            "average": lambda array: array.mean(axis=0),
        }
        if output_format not in choose:
            raise InputError(f"output_format is {output_format!r}; choose 'all', 'top' or 'average'.")
        check_batch_size(batch_size)
        with Path(input_file).open(encoding="utf-8") if isinstance(input_file, str | Path) else input_file as file:
            sentences = [line.strip() for line in file]
        if not sentences:
            raise InputError("The input file has no lines; give a file with one sentence per line.")
        names = sentences if use_sentence_keys else [str(number) for number in range(len(sentences))]
        times = Counter(names)
        for number, name in enumerate(names):
            if times[name] > 1 or name in ("", ".") or "/" in name or "\0" in name:
                raise InputError(
                    f"Line {number} is {name!r:.80}, which cannot name a dataset, because it is repeated, empty, "
                    "'.' or has a '/'; leave use_sentence_keys out to name datasets by number."
                )
        import h5py

        arrays = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        with atomic_write(Path(output_file_path)) as temporary, h5py.File(temporary, "w") as output:
            for name, array in zip(names, arrays, strict=True):
                output.create_dataset(name, data=choose[output_format](array), dtype="float32")
            if not forget_sentences and not use_sentence_keys:
                index = output.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps(dict(zip(sentences, names, strict=True)))
