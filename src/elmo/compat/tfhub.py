"""The API of google/elmo on TensorFlow Hub: the same signatures and outputs, as PyTorch tensors.

`from elmo.compat.tfhub import Module` replaces hub.Module.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from torch import Tensor, nn

from elmo.checkpoint.open import open_checkpoint
from elmo.checkpoint.source import official_alias_of
from elmo.compat.engine import is_url, read_word_lists
from elmo.device import ModuleRuntime
from elmo.errors import CheckpointError, InputError
from elmo.nn.build import load_bilm
from elmo.nn.scalar_mix import ScalarMix
from elmo.text.sentence_input import as_plain
from elmo.text.tokenize import split_on_spaces

SIGNATURES = ("default", "tokens")
Inputs: TypeAlias = Iterable[str | bytes] | Mapping[str, Any]


class Module(nn.Module):
    """google/elmo: a frozen biLM and one scalar mix of its layers.

    With `trainable`, the parameters are the mixing weights and γ; otherwise there are none, and all layers have equal
    weights. `stateful=False` starts every call from a zero state.
    """

    if TYPE_CHECKING:
        # The signature of nn.Module has no types.
        @overload
        def __call__(self, inputs: Inputs, signature: str = ..., as_dict: Literal[False] = ...) -> Tensor: ...
        @overload
        def __call__(self, inputs: Inputs, signature: str = ..., *, as_dict: Literal[True]) -> dict[str, Tensor]: ...
        @overload
        def __call__(self, inputs: Inputs, signature: str = ..., as_dict: bool = ...) -> Tensor | dict[str, Tensor]: ...
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            """Run forward."""

    def __init__(self, url_or_path: str | Path, trainable: bool = False, *, stateful: bool = True) -> None:
        """Open the public URL of the module, which is the model `original`, or any other model."""
        super().__init__()
        alias = official_alias_of(str(url_or_path))
        if alias is None and is_url(url_or_path):
            raise CheckpointError(
                f"{url_or_path} is not a public URL of ELMo; give https://tfhub.dev/google/elmo/3, or the folder, file "
                "or name of a model."
            )
        checkpoint = open_checkpoint(alias or url_or_path)
        config = checkpoint.config
        self._indexer = checkpoint.indexer(literal_boundaries=True)
        # The runtime is not a module, so the weights of the biLM are not parameters of this module.
        self._runtime = ModuleRuntime(load_bilm(config, checkpoint.weights), config, carry=stateful)
        self.mix = ScalarMix(config.encoder.num_layers + 1, learned=trainable)

    def reset_state(self) -> None:
        """Set the LSTM state to zero."""
        self._runtime.reset_state()

    def forward(self, inputs: Inputs, signature: str = "default", as_dict: bool = False) -> Tensor | dict[str, Tensor]:
        """Embed sentences: strings that are split on spaces, or {"tokens": ..., "sequence_len": ...}.

        Bytes are decoded as UTF-8, and NumPy arrays are accepted as lists. Returns the mean vector of each sentence
        (B, 2D), or with `as_dict` all outputs by name: word_emb (B, T, D), lstm_outputs1, lstm_outputs2 and so on
        (B, T, 2D), elmo (B, T, 2D), default (B, 2D) and sequence_len (B,). Padded positions are zero.
        """
        if signature not in SIGNATURES:
            raise InputError(f"signature is {signature!r}; choose 'default' or 'tokens'.")
        sentences, width = _read_strings(inputs) if signature == "default" else _read_tokens(inputs)
        self._runtime.bilm.to(self.mix.weights.device)
        states = self._runtime.run(self._indexer.batch(sentences)).without_boundaries()
        missing = width - states.mask.shape[1]
        layers = nn.functional.pad(states.layers, (0, 0, 0, missing))
        mask = nn.functional.pad(states.mask, (0, missing))
        mixed = self.mix(layers, mask)
        lengths = mask.sum(dim=1)
        pooled: Tensor = mixed.sum(dim=1) / lengths.clamp(min=1)[:, None]
        if not as_dict:
            return pooled
        lstm_outputs = {f"lstm_outputs{number}": layer for number, layer in enumerate(layers) if number > 0}
        return {
            "word_emb": layers[0, ..., : layers.shape[-1] // 2],
            **lstm_outputs,
            "elmo": mixed,
            "default": pooled,
            "sequence_len": lengths,
        }


def _read_strings(inputs: Any) -> tuple[list[list[str]], int]:
    """Return the words of texts, and the number of words in the longest text."""
    texts = as_plain(inputs)
    if not texts or isinstance(texts, str | Mapping):
        raise InputError(
            f"inputs is {inputs!r:.60}; the signature 'default' takes a list of strings, such as ['the cat is on "
            "the mat'], and lists of words need signature='tokens'."
        )
    sentences = [[word.text for word in split_on_spaces(_decode(text))] for text in texts]
    return sentences, max(map(len, sentences))


def _read_tokens(inputs: Any) -> tuple[list[list[str]], int]:
    """Return the words of each row up to its length, and the width of the rows."""
    if not isinstance(inputs, Mapping) or set(inputs) != {"tokens", "sequence_len"}:
        raise InputError(
            f"inputs is {inputs!r:.60}; the signature 'tokens' takes lists of words and one length for each: "
            "{'tokens': [['the', 'cat'], ['cat', '']], 'sequence_len': [2, 1]}."
        )
    rows = read_word_lists([[_decode(word) for word in as_plain(row)] for row in as_plain(inputs["tokens"])])
    lengths = as_plain(inputs["sequence_len"])
    return [row[:length] for row, length in zip(rows, lengths, strict=True)], max(map(len, rows))


def _decode(text: Any) -> Any:
    """Decode the bytes of a TensorFlow string; return other values unchanged."""
    return text.decode("utf-8") if isinstance(text, bytes) else text
