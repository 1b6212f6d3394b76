"""Which precision the products of this machine can be made in; what was asked for -> what is used."""

import functools
import logging
from typing import Any, Literal, TypeAlias

import torch

from elmo.errors import ConfigError

logger = logging.getLogger(__name__)

Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]
PRECISIONS = ("auto", "float32", "bfloat16", "int8")
COMPILED_PRECISIONS = ("float32", "int8")  # that src/elmo/kernels multiplies in
INT8_PRODUCT = "linear_with_input_q_dq_qweight_dq_output_fp32"  # FBGEMM's: an input of a given scale, float32 out
_FASTEST_FIRST: tuple[Precision, ...] = ("int8", "bfloat16", "float32")


def choose_precision(asked: str, *, can_pack: bool) -> Precision:
    """Give the precision to use: the one asked for, float32 where it cannot be had, the fastest for "auto".

    `can_pack` tells whether the network is one whose weights can be laid out for the faster ones.
    """
    if asked not in PRECISIONS:
        raise ConfigError(f"The precision {asked!r} is not known; choose one of {', '.join(PRECISIONS)}.")
    usable = [name for name in _FASTEST_FIRST if name == "float32" or (can_pack and is_supported(name))]
    for name in usable:
        if asked in ("auto", name):
            return name
    reason = "this CPU has no instructions for it" if can_pack else "only LSTMs on a CPU can be run in it"
    logger.warning("The precision %s is not to be had here (%s); float32 is used.", asked, reason)
    return "float32"


@functools.cache
def is_supported(precision: Precision) -> bool:
    """Tell whether this machine multiplies in a precision faster than in float32."""
    if precision == "int8":
        has_kernel = hasattr(torch.ops.quantized, INT8_PRODUCT)
        return has_kernel and "fbgemm" in torch.backends.quantized.supported_engines
    if precision == "bfloat16":
        return has_onednn() and _cpu_has("avx512_bf16", "amx_bf16", "avx_ne_convert")
    return True


def has_onednn() -> bool:
    """Tell whether torch was built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


@functools.cache
def multiplies_bytes_exactly() -> bool:
    """Tell whether pairs of products of 8 bits are summed without overflow (VNNI), so that 8 bits can be used."""
    return _cpu_has("avx512_vnni", "avx_vnni")


def _cpu_has(*names: str) -> bool:
    """Tell whether the CPU has any of these instruction sets; releases of torch that cannot tell say no."""
    told: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(told.get(name) for name in names)
