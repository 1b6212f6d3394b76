"""The runtimes that use torch: language models on a GPU, Transformers, and trainable modules."""

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from elmo.config import EncoderConfig, ModelConfig
from elmo.errors import ConfigError, first_line
from elmo.inference.layers import LayerChoice, choose_layers
from elmo.inference.runtime import (
    CarriedState,
    CpuRuntime,
    Precision,
    PrecisionChoice,
    Runtime,
    Weights,
    pad_rows,
)
from elmo.inference.words import DEFAULT_BYTES, WordCache
from elmo.nn.batch import encode_tokens, run_bilm
from elmo.nn.bilm import BiLM, BiLMState, LayerStates, TokenEncoder
from elmo.nn.build import load_bilm, weights_of
from elmo.text.batch import CharBatch

Array = npt.NDArray[np.float32]


class TorchRuntime(Runtime):
    """Runs the modules of nn/ on a device, without gradients."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        device: str = "cpu",
        precision: str = "float32",
        carry: bool = False,
        num_threads: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        super().__init__(weights, carry=carry)
        opened = open_device(device)
        self.device = str(opened)
        chosen: Precision = "bfloat16" if precision == "bfloat16" and opened.type == "cuda" else "float32"
        reason = "as requested" if precision == chosen else f"{precision} is for LSTMs on a CPU, or a GPU"
        self.precision_choice = PrecisionChoice(chosen, reason)
        self.num_threads = num_threads or torch.get_num_threads()
        self.bilm = load_bilm(config, weights).to(opened)
        self.num_layers = self.bilm.num_layers
        self.cache = WordCache(config.encoder.output_dim, max_bytes=cache_bytes)
        self._carried = CarriedState(self.bilm.zero_state) if carry else None

    @torch.inference_mode()
    def encode_words(self, batch: CharBatch) -> Array:
        """Return the context-free vectors (U, D) of a batch's distinct tokens; no state is used or changed."""
        return self.cache.look_up(batch.keys, lambda missing: self._encode(batch, missing))

    def _narrow(self) -> AbstractContextManager[Any]:
        if self.precision_choice.precision != "bfloat16":
            return nullcontext()
        return torch.autocast(torch.device(self.device).type, torch.bfloat16)

    def _encode(self, batch: CharBatch, missing: list[int]) -> Array:
        with self._narrow():
            ids = batch.look_up([batch.keys[position] for position in missing])
            vectors: Array = encode_tokens(self.bilm, ids).float().cpu().numpy()
        return vectors

    @torch.inference_mode()
    def _forward(self, batch: CharBatch, choice: LayerChoice, *, skip_last: bool) -> Array:
        words = torch.from_numpy(self.encode_words(batch)).to(self.device)
        words = words[torch.from_numpy(batch.word_index).to(self.device)]
        lengths = torch.from_numpy(batch.lengths)
        limit = lengths - 1 if skip_last else None
        weights = torch.from_numpy(choice.matrix).to(self.device)

        def run(state: BiLMState | None) -> tuple[Array, BiLMState]:
            with self._narrow():
                states, after = self.bilm(words, lengths, state, limit)
            rows = states.layers.float()[:, states.mask]  # (L+1, N, 2D)
            return torch.einsum("kl,lnd->nkd", weights, rows).cpu().numpy(), after

        return run(None)[0] if self._carried is None else self._carried.advance(len(batch.order), run)


class ModuleRuntime:
    """Runs a biLM module as part of a network, with or without gradients and a carried state.

    Without gradients, an LSTM on the CPU runs in the kernels; its weights are packed again whenever they change.
    """

    def __init__(self, bilm: BiLM, config: ModelConfig, *, carry: bool = False, gradients: bool = False) -> None:
        """`gradients`: whether they are ever needed; if so, a carried state belongs to the module."""
        self.bilm, self._config = bilm, config
        self._gradients, self._carry = gradients, carry
        self._carried = CarriedState(bilm.zero_state) if carry else None
        self._compiled: tuple[list[int], Runtime] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"bilm": self.bilm, "config": self._config, "carry": self._carry, "gradients": self._gradients}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def run(self, batch: CharBatch) -> LayerStates:
        """Return all layers of a batch, boundaries included, from the carried state or from zero."""
        gradients = self._gradients and torch.is_grad_enabled()
        if not gradients and not (self._gradients and self._carry) and self._is_compilable():
            return run_frozen(self._compile(), batch)
        # A state made in the caller's inference mode could not take part in training afterwards.
        with torch.inference_mode(False), torch.set_grad_enabled(gradients):
            if self._carried is None:
                return run_bilm(self.bilm, batch)[0]

            def advance(state: BiLMState) -> tuple[LayerStates, BiLMState]:
                device = next(self.bilm.parameters()).device
                layers, after = run_bilm(self.bilm, batch, state.map(lambda tensor: tensor.to(device)))
                return layers, after.map(lambda tensor: tensor.detach().clone())

            return self._carried.advance(len(batch.order), advance)

    def reset_state(self) -> None:
        """Set the carried state to zero."""
        if self._carried is not None:
            self._carried.reset()
        if self._compiled is not None:
            self._compiled[1].reset_state()

    def _is_compilable(self) -> bool:
        is_plain = type(self.bilm.tokens) is TokenEncoder and isinstance(self._config.encoder, EncoderConfig)
        return is_plain and next(self.bilm.parameters()).device.type == "cpu"

    def _compile(self) -> Runtime:
        """Return a runtime with the current weights; reuse the previous runtime if they have not changed."""
        weights = list(self.bilm.parameters())
        version = [weight.data_ptr() for weight in weights]
        version += [weight._version for weight in weights if not weight.is_inference()]
        if any(weight.requires_grad for weight in weights):
            version.append(_count_optimizer_steps()[0])
        if self._compiled is None or self._compiled[0] != version:
            self._compiled = version, CpuRuntime(self._config, weights_of(self.bilm), carry=self._carry)
        return self._compiled[1]


@functools.cache
def _count_optimizer_steps() -> list[int]:
    """Return a running count of all optimizers' steps: fused ones change a weight but not its version."""
    count = [0]

    def add_one(*_: Any) -> None:
        count[0] += 1

    register_optimizer_step_post_hook(add_one)
    return count


def run_frozen(runtime: Runtime, batch: CharBatch) -> LayerStates:
    """Return all layers of a batch, boundaries included, as tensors that can be the input of a trained network."""
    rows = runtime.embed(batch, choose_layers("all", runtime.num_layers))
    mask = batch.word_mask
    layers = torch.from_numpy(pad_rows(rows, mask)).permute(2, 0, 1, 3)
    return LayerStates(layers, torch.from_numpy(mask))


def supports_bfloat16() -> bool:
    """Return whether this CPU has instructions for bfloat16, so that training in bfloat16 is faster."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    fast = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "avx_ne_convert"))
    return fast and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def open_device(device: str | torch.device) -> torch.device:
    """Return a device after checking that it works; "auto" is CUDA, else MPS, else the CPU."""
    try:
        opened = torch.device(_available()[-1] if device == "auto" else device)
        torch.empty(0, device=opened)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ConfigError(
            f"The device {str(device)!r} cannot be used: {first_line(error).rstrip('.')}; choose "
            f"{' or '.join(_available())}."
        ) from error
    return opened


def _available() -> list[str]:
    """Return the devices of this machine, the fastest last."""
    devices = ["cpu"]
    if torch.backends.mps.is_available():
        devices.append("mps")
    if torch.cuda.is_available():
        devices.append("cuda")
    return devices
