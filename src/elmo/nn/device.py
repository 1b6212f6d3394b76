"""The name of a device -> a device that can be used here, or one sentence why not."""

import torch

from elmo.errors import ConfigError


def open_device(device: str | torch.device) -> torch.device:
    """Return the device after trying it; "auto" is CUDA, else MPS, else the CPU."""
    try:
        opened = torch.device(_available()[-1] if device == "auto" else device)
        torch.empty(0, device=opened)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
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
