"""Which device and precision to compute with: what was asked for -> what is used, and why."""

import functools
import logging
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch

from elmo.errors import ConfigError
from elmo.kernels.library import find_kernels

logger = logging.getLogger(__name__)
Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]
PRECISIONS = ("auto", "float32", "bfloat16", "int8")
COMPILED_PRECISIONS = ("float32", "int8")  # that src/elmo/kernels multiplies in
INT8_PRODUCT = "linear_with_input_q_dq_qweight_dq_output_fp32"  # FBGEMM's: an input of a given scale, float32 out
# Float32 weights of one direction beyond this are read from memory for every single word.
_LARGEST_CACHED_BYTES = 2**23


@dataclass(frozen=True)
class PrecisionChoice:
    """The precision to use, and why it was taken."""

    precision: Precision
    reason: str


def choose_precision(asked: str, *, can_pack: bool, num_weights: int) -> PrecisionChoice:
    """Choose the precision: the one asked for, float32 where it is not available, the fastest for "auto".

    `can_pack` says whether the network is one whose weights can be laid out for the faster ones; `num_weights` are
    those of one direction.
    """
    if asked not in PRECISIONS:
        raise ConfigError(f"The precision {asked!r} is not known; choose one of {', '.join(PRECISIONS)}.")
    if asked == "auto":
        return _choose_fastest(can_pack=can_pack, num_weights=num_weights)
    if asked == "float32" or (can_pack and is_supported(asked)):
        return PrecisionChoice(cast(Precision, asked), "as asked for")
    reason = "this CPU has no instructions for it" if can_pack else "only LSTMs on a CPU run in it"
    logger.warning("The precision %s is not available here (%s); float32 is used.", asked, reason)
    return PrecisionChoice("float32", f"{asked} is not available here: {reason}")


def _choose_fastest(*, can_pack: bool, num_weights: int) -> PrecisionChoice:
    """Choose by rules taken from measurements with VNNI; for AVX2 only short trials of en-small were made."""
    if not can_pack:
        return PrecisionChoice("float32", "only LSTMs on a CPU run in a narrower precision")
    kernels = find_kernels()
    if kernels.library is not None:
        if kernels.library.has_fast_bytes:
            return PrecisionChoice("int8", f"the {kernels.library.variant} kernels are fastest in 8 bits")
        return PrecisionChoice("float32", f"the {kernels.library.variant} kernels are fastest in float32")
    if is_supported("int8") and multiplies_bytes_exactly():
        return PrecisionChoice("int8", "torch multiplies 8 bits with instructions made for them")
    if is_supported("int8") and 4 * num_weights > _LARGEST_CACHED_BYTES:
        return PrecisionChoice("int8", "the weights are read from memory, and 8 bits are fewer to read")
    return PrecisionChoice("float32", "torch is fastest in float32 for a model of this size")


def is_supported(precision: str) -> bool:
    """Return whether this machine can run a model in a precision."""
    if precision == "int8":
        if find_kernels().library is not None:
            return True
        has_kernel = hasattr(torch.ops.quantized, INT8_PRODUCT)
        return has_kernel and "fbgemm" in torch.backends.quantized.supported_engines
    if precision == "bfloat16":
        return has_onednn() and _cpu_has("avx512_bf16", "amx_bf16", "avx_ne_convert")
    return True


def has_onednn() -> bool:
    """Return whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


@functools.cache
def multiplies_bytes_exactly() -> bool:
    """Return whether the CPU sums products of 8 bits without overflow (VNNI), so that all 8 bits can be used."""
    return _cpu_has("avx512_vnni", "avx_vnni")


def _cpu_has(*names: str) -> bool:
    """Return whether the CPU has any of these instruction sets; False where torch cannot say."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in names)


def open_device(device: str | torch.device) -> torch.device:
    """Return the device after trying it; "auto" is CUDA, else MPS, else the CPU."""
    try:
        opened = torch.device(_available()[-1] if device == "auto" else device)
        torch.empty(0, device=opened)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        if "device string" in reason:  # torch lists every kind of device it could be built for
            reason = "it is not the name of a device"
        raise ConfigError(
            f"The device {str(device)!r} cannot be used: {reason}; choose {' or '.join(_available())}."
        ) from error
    return opened


def _available() -> list[str]:
    """Return the devices of this machine, the fastest last."""
    found = ["cpu"]
    if torch.backends.mps.is_available():
        found.append("mps")
    if torch.cuda.is_available():
        found.append("cuda")
    return found
