"""Describe the machine of a measurement: CPU, instruction sets, load."""

import os
import platform
from typing import Any

import torch

# Instruction sets for matrix multiplications: their names in torch and their usual names.
FLAGS = {
    "avx2": "avx2",
    "avx512_f": "avx512f",
    "avx_vnni": "avx_vnni",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "amx_int8": "amx_int8",
    "amx_bf16": "amx_bf16",
}


def list_flags() -> list[str]:
    """Return the instruction sets among FLAGS that this CPU supports; none if torch does not report them."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return [flag for name, flag in FLAGS.items() if capabilities.get(name)]


def multiplies_bfloat16() -> bool:
    """Return whether this CPU has instructions for bfloat16 products."""
    return any(flag.endswith("bf16") for flag in list_flags())


class Machine:
    """The state of the machine at the start of a measurement; call `describe` at the end."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads, self._load = num_threads, os.getloadavg()[0]

    def describe(self) -> dict[str, Any]:
        """Return the entry for the JSON line."""
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        return {
            "cpu": capabilities.get("cpu_name", platform.machine()),
            "flags": list_flags(),
            "num_cores": os.cpu_count(),
            "num_threads": self._num_threads,
            "load_average": [round(self._load, 2), round(os.getloadavg()[0], 2)],
            "torch": torch.__version__,
        }

    def __str__(self) -> str:
        """Return a one-line description."""
        description = self.describe()
        flags = " ".join(description["flags"]) or "no known flags"
        before, after = description["load_average"]
        return (
            f"{description['cpu']} ({flags}), {description['num_cores']} cores, threads per program: "
            f"{description['num_threads']}, torch {description['torch']}, "
            f"load average {before} before and {after} after"
        )
