"""What --model and the options beside it mean: a model ready to use."""

from typing import TYPE_CHECKING, cast

from elmo.cli.options import State
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.open import Format
    from elmo.model import Elmo


def open_model(
    name: str | None,
    *,
    format: str | None = None,
    device: str = "cpu",
    state: State = State.zero,
    precision: str = "float32",
    threads: int | None = None,
    local_files_only: bool = False,
) -> "Elmo":
    """Open the model of that name, or the default one."""
    from elmo.model import Elmo

    if threads is not None and threads < 1:
        raise InputError(f"--threads is {threads}; give 1 or more.")

    return Elmo.from_pretrained(
        name,
        format=cast("Format | None", format),
        device=device,
        state="carry" if state is State.carry else "zero",
        precision=precision,
        num_threads=threads,
        local_files_only=local_files_only,
    )


def open_model_files(
    name: str | None, *, format: str | None = None, local_files_only: bool = False
) -> "Checkpoint":
    """Read a model without building its network."""
    from elmo.checkpoint.open import open_checkpoint
    from elmo.checkpoint.source import DEFAULT_MODEL

    return open_checkpoint(
        DEFAULT_MODEL if name is None else name,
        format=cast("Format | None", format),
        local_files_only=local_files_only,
    )
