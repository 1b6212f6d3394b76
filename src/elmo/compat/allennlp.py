"""The API of AllenNLP: Elmo, batch_to_ids and ElmoEmbedder.

`from elmo.compat.allennlp import Elmo, batch_to_ids, ElmoEmbedder` replaces the imports from
allennlp.modules.elmo and allennlp.commands.elmo.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo.checkpoint.formats.manylangs import list_variables
from elmo.checkpoint.source import BASE_ADDRESS, OFFICIAL
from elmo.compat.engine import Array, Embedder, open_files, open_model, read_word_lists
from elmo.config import EncoderConfig
from elmo.device import ModuleRuntime
from elmo.errors import CheckpointError, InputError
from elmo.files.durable import atomic_write
from elmo.layer import LayerMixes
from elmo.nn.batch import pad_sentences, unpad_sentences
from elmo.nn.build import load_bilm
from elmo.nn.scalar_mix import ScalarMix
from elmo.tasks.readers.reader import Lines
from elmo.text.batch import BEGIN_ROW, END_ROW, Indexer
from elmo.text.characters import Utf8Alphabet
from elmo.text.sentence_input import as_plain, check_batch_size

__all__ = ["Elmo", "ElmoEmbedder", "ElmoRepresentations", "batch_to_ids"]

OutputFormat = Literal["all", "top", "average"]

DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE = (BASE_ADDRESS + path for path in OFFICIAL["original"])
DEFAULT_BATCH_SIZE = 64
LAYER_NORM_EPSILON = 1e-13
# Modules of ELMoForManyLangs' token embedder -> prefixes in AllenNLP's.
_PREFIXES = {"convolutions": "char_conv_", "highways": "_highways.", "projection": "_projection."}
_INDEXER = Indexer(Utf8Alphabet(), None, literal_boundaries=("<S>", "</S>"))


class ElmoRepresentations(TypedDict):
    """The result of a forward pass: each mix (..., T, 2D), and the mask (..., T), True at words."""

    elmo_representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """Scalar mixes of a biLM's layers for a task network, computed from character ids.

    Unless `requires_grad` is set, the state_dict contains only the mixes. A state_dict saved by AllenNLP can be loaded
    too. `mixes` are the modules with the weights and the scale of each mix. `stateful=False` starts every batch from a
    zero state, so the same sentence always gets the same vectors.
    """

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoRepresentations:
            """Declare the types of forward; the signature of nn.Module has none."""

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
        """`vocab_to_cache`: words whose indices in this list can be passed to forward as `word_inputs`."""
        super().__init__()
        checkpoint = open_files(options_file, weight_file)
        config = checkpoint.config
        if config.characters is None:
            raise CheckpointError(
                f"{weight_file} is a word-level model and takes no character ids; use Elmo.from_pretrained."
            )
        self._config = config
        self._boundaries = checkpoint.indexer().look_up([BEGIN_ROW, END_ROW])
        self._keep_sentence_boundaries = keep_sentence_boundaries
        mix_weights = None if scalar_mix_parameters is None else list(as_plain(scalar_mix_parameters))
        self.mixes = LayerMixes(
            config.encoder.num_layers + 1, config.vector_dim, num_mixes=num_output_representations, dropout=dropout,
            layer_norm=do_layer_norm, mix_weights=mix_weights, learn_mixes=mix_weights is None,
        )  # fmt: skip
        for mix in self.mixes:
            cast(ScalarMix, mix).epsilon = LAYER_NORM_EPSILON
        self._word_ids: Tensor | None = None
        if vocab_to_cache is not None and len(vocab_to_cache):
            self._word_ids = batch_to_ids([as_plain(vocab_to_cache)])[0]
            self._word_ids[0] = 0  # the first word is padding
        bilm = load_bilm(config, checkpoint.weights).requires_grad_(requires_grad)
        self.bilm = bilm if requires_grad else None  # a frozen biLM is not part of the state_dict
        self._runtime = ModuleRuntime(bilm, config, carry=stateful, gradients=requires_grad)
        self.register_load_state_dict_pre_hook(_convert_state_dict)  # type: ignore[no-untyped-call]

    def get_output_dim(self) -> int:
        """Return 2·D, the length of a word's vector."""
        return self.mixes.output_dim

    def reset_state(self) -> None:
        """Set the LSTM state to zero."""
        self._runtime.reset_state()

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoRepresentations:
        """Mix the layers of words given by character ids (..., T, 50), or by indices into `vocab_to_cache` (..., T).

        The id 0 is padding. If both are given, `word_inputs` is used unless an index is not in `vocab_to_cache`.
        """
        cached_ids, characters = self._word_ids, self._config.characters
        assert characters is not None
        if word_inputs is not None and cached_ids is not None and _all_below(word_inputs, len(cached_ids)):
            inputs = cached_ids.to(word_inputs.device)[word_inputs]
        size, num_characters = characters.max_characters, characters.num_characters
        if inputs is None or inputs.dim() < 3 or inputs.shape[-1] != size or not _all_below(inputs, num_characters):
            raise InputError(
                f"inputs has the shape {() if inputs is None else tuple(inputs.shape)}; give ids from 0 to "
                f"{num_characters - 1} of the shape (sentences, words, {size}), as returned by batch_to_ids, or "
                "word_inputs with indices into vocab_to_cache."
            )
        leading, ids = inputs.shape[:-2], inputs.flatten(0, -3).long()
        # A row without words still has both boundaries, as in the original.
        batch = unpad_sentences(self._boundaries, ids, (ids > 0).any(dim=-1))
        if self.bilm is None:
            self._runtime.bilm.to(self.mixes.device)
        states = self._runtime.run(batch)
        mask = states.mask.to(self.mixes.device)
        # The boundaries take part in the layer norm, so they are cut off after mixing.
        mixes = list(self.mixes(states.layers.to(self.mixes.device), mask))
        if not self._keep_sentence_boundaries:
            mask = mask[:, 2:]
            mixes = [mix[:, 1:-1] * mask[..., None] for mix in mixes]
        return {
            "elmo_representations": [mix.reshape(*leading, *mix.shape[1:]) for mix in mixes],
            "mask": mask.reshape(*leading, mask.shape[1]),
        }


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Return the character ids of sentences that are lists of words, (B, T, 50), zero where padded.

    The literal words <S> and </S> become boundaries, as in the original.
    """
    return pad_sentences(_INDEXER, read_word_lists(batch))["input_ids"]


def _convert_state_dict(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace the entries of an AllenNLP state_dict by ours; a strict load reports unknown entries."""
    assert isinstance(module, Elmo)
    for number, mix in enumerate(module.mixes):
        theirs, ours = f"{prefix}scalar_mix_{number}", f"{prefix}mixes.{number}"
        names = [f"{theirs}.scalar_parameters.{layer}" for layer in range(len(cast(ScalarMix, mix).weights))]
        if all(name in state for name in names):
            state[f"{ours}.weights"] = torch.cat([state.pop(name).reshape(1) for name in names])
        if f"{theirs}.gamma" in state:
            state[f"{ours}.gamma"] = state.pop(f"{theirs}.gamma").reshape(())
    theirs = f"{prefix}_elmo_lstm."
    if module._word_ids is not None:
        state.pop(f"{theirs}_word_embedding.weight", None)  # computed from the characters here
    converted: dict[str, Tensor] = {}
    config = module._config
    assert isinstance(config.encoder, EncoderConfig) and config.characters is not None
    if (table := state.pop(f"{theirs}_token_embedder._char_embedding_weights", None)) is not None:
        # Files with 262 characters have one row that is never used.
        converted["tokens.characters.embedding.weight"] = table[: config.characters.num_characters]
    for variable in list_variables(config):
        network, leaf = variable.name.split(".", 1)
        name = f"_token_embedder.{_PREFIXES[network]}{leaf}" if network in _PREFIXES else f"_elmo_lstm.{variable.name}"
        if (tensor := state.pop(theirs + name, None)) is not None:
            if leaf == "state_linearity.bias":  # in AllenNLP, it includes the forget bias
                input_gate, forget_gate, *others = tensor.chunk(4)
                tensor = torch.cat([input_gate, forget_gate - config.encoder.forget_bias, *others])
            converted.update(zip(variable.weights, variable.to_weights(tensor), strict=True))
    if module.bilm is None:
        module._runtime.bilm.load_state_dict(converted, strict=False)
    else:
        state.update({f"{prefix}bilm.{name}": tensor for name, tensor in converted.items()})


def _all_below(ids: Tensor, limit: int) -> bool:
    return not bool(((ids < 0) | (ids >= limit)).any())


class ElmoEmbedder(Embedder):
    """Computes all layers of sentences, which are lists of words.

    `stateful=False` starts every sentence from a zero state, so it always gets the same vectors.
    """

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        stateful: bool = True,
    ) -> None:
        self.cuda_device = cuda_device
        device = "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"
        super().__init__(stateful=stateful)
        self._opened = open_model(open_files(options_file, weight_file), stateful=stateful, device=device)

    def embed_sentence(self, sentence: Sequence[str]) -> Array:
        """Return all layers of one sentence, (L+1, T, 2D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Array]:
        """Return all layers of each sentence, (L+1, T, 2D); an empty sentence has (L+1, 0, 2D)."""
        sentences = read_word_lists(batch)
        if not any(sentences):
            # The original does not run its network here, so the state stays as it is.
            return [np.zeros((self._model.num_layers, 0, self._model.dim), dtype=np.float32) for _ in sentences]
        return self._embed(sentences, len(sentences), "all")

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Array]:
        """Yield all layers of each sentence, computed in batches of `batch_size` sentences."""
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
    ) -> None:
        """Write the vectors of a file with one sentence per line, words separated by spaces, to an HDF5 file.

        The input is an open text file, which is closed at the end, or the path of a UTF-8 file. Datasets are named
        by line number: "0", "1", and so on; the dataset of a blank line is empty. Unless `forget_sentences` is set,
        the dataset `sentence_to_index` is a JSON object that maps each sentence to its dataset, the last one if a
        sentence is repeated.
        """
        select_layers: dict[str, Callable[[Array], Array]] = {
            "all": lambda array: array,
            "top": lambda array: array[-1],
            "average": lambda array: array.mean(axis=0),
        }
        if output_format not in select_layers:
            raise InputError(f"output_format is {output_format!r}; choose 'all', 'top' or 'average'.")
        check_batch_size(batch_size)
        with nullcontext(Lines(input_file)) if isinstance(input_file, str | Path) else input_file as lines:
            sentences = [line.strip() for line in lines]
        import h5py

        arrays = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        with atomic_write(Path(output_file_path)) as temporary, h5py.File(temporary, "w") as output:
            for number, array in enumerate(arrays):
                output.create_dataset(str(number), data=select_layers[output_format](array), dtype="float32")
            if not forget_sentences:
                index = output.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps({sentence: str(number) for number, sentence in enumerate(sentences)})
