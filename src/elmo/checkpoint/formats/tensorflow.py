"""TensorFlow checkpoints of bilm-tf's training (`model.ckpt-N.index` and `.data-…`), with the softmax."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.formats import bilm
from elmo.checkpoint.formats.hdf5 import find_vocabulary, read_vocabulary
from elmo.checkpoint.location import Location, check_file, read_json
from elmo.checkpoint.tensors import Array
from elmo.errors import CheckpointError, first_line
from elmo.extras import install_command

SOFTMAX_WEIGHT, SOFTMAX_BIAS = "softmax/W", "softmax/b"


def find_prefix(folder: Path) -> Path | None:
    """Return a folder's checkpoint: the one its `checkpoint` file names as latest, or the only one."""
    prefixes = sorted(path.with_suffix("") for path in folder.glob("*.index"))
    record = folder / "checkpoint"
    if record.is_file():
        named = re.search(r'^model_checkpoint_path: "(.*)"', record.read_text("utf-8", "replace"), re.MULTILINE)
        # The path is often absolute and from another machine; its last part is beside the file.
        latest = folder / Path(named[1].replace("\\", "/")).name if named else None
        if latest in prefixes:
            return latest
    if len(prefixes) > 1:
        names = ", ".join(path.name for path in prefixes)
        raise CheckpointError(f"{folder} holds several TensorFlow checkpoints ({names}); give the path of one.")
    return prefixes[0] if prefixes else None


def read_tensorflow(prefix: Path, options: Location) -> Checkpoint:
    """Open the checkpoint PREFIX.index, with the vocabulary beside it."""
    names, reader = _open(prefix)
    # The slot of an optimizer is named after its variable, such as lm/char_embed/Adagrad.
    unread = {name for name in names if name.startswith("lm/") and name.rpartition("/")[0] not in names}

    def find(name: str) -> Array | None:
        for candidate in _their_names(name):
            if candidate in names:
                unread.discard(candidate)
                return reader(candidate)
        return None

    vocabulary = find_vocabulary(prefix.parent)
    config = bilm.read_options(read_json(options), str(options), with_softmax=find(SOFTMAX_BIAS) is not None)
    shares_embedding = config.softmax is not None and find(SOFTMAX_WEIGHT) is None
    weights = bilm.import_weights(
        config,
        # A word model may use its input vectors as softmax weights (share_embedding_softmax).
        lambda name: find("embedding" if shares_embedding and name == SOFTMAX_WEIGHT else name),
        str(prefix),
        unread,
    )
    return Checkpoint(
        config=config,
        weights=weights,
        vocabulary=read_vocabulary(vocabulary) if vocabulary else None,
        origin={"format": "tensorflow", "source": prefix.name},
    )


def _open(prefix: Path) -> tuple[frozenset[str], Callable[[str], Array]]:
    """Return the names in a checkpoint and a function that reads one of them."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow logs its CPU features otherwise
    try:
        import tensorflow as tf
    except ImportError as error:
        raise CheckpointError(
            f"Reading a TensorFlow checkpoint needs TensorFlow: {install_command('tensorflow')}"
        ) from error

    def guard(call: Callable[..., Any], *arguments: str) -> Any:
        try:
            return call(*arguments)
        except (tf.errors.OpError, ValueError, TypeError, RuntimeError, IndexError, MemoryError) as error:
            reason = first_line(error)
            raise CheckpointError(f"{prefix} is not a complete TensorFlow checkpoint: {reason}.") from error

    def read_array(name: str) -> Array:
        return np.array(opened.get_tensor(name), dtype=np.float32)

    check_file(prefix.with_name(f"{prefix.name}.index"))
    opened = guard(tf.train.load_checkpoint, str(prefix))
    return frozenset(opened.get_variable_to_shape_map()), lambda name: guard(read_array, name)


def _their_names(name: str) -> list[str]:
    """Return the names that a variable of the HDF5 file can have in a checkpoint."""
    cell = re.fullmatch(r"(RNN_\d)/RNN/(?:MultiRNNCell/Cell(\d+)/)?LSTMCell/(W_0|B|W_P_0)", name)
    if not cell:
        return [f"lm/{name}"]
    direction, layer, variable = cell.groups()
    leaf = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}[variable]
    stacked = f"lm/{direction}/rnn/multi_rnn_cell/cell_{layer or 0}/lstm_cell/{leaf}"
    return [stacked] if layer else [f"lm/{direction}/rnn/lstm_cell/{leaf}", stacked]
