"""TensorFlow checkpoints of bilm-tf's training (`model.ckpt-N.index` and `.data-…`), with the softmax."""

import os
import re
from pathlib import Path

import numpy as np

from elmo.checkpoint.checkpoint import Checkpoint
from elmo.checkpoint.formats import bilm
from elmo.checkpoint.formats.hdf5 import read_vocabulary
from elmo.checkpoint.location import read_json
from elmo.errors import CheckpointError, first_line
from elmo.extras import require


def find_prefix(path: Path) -> Path:
    """Return the prefix of a checkpoint's files, given one of the files or their folder.

    In a folder with several checkpoints, the file `checkpoint` names the latest.
    """
    if not path.is_dir():
        prefix = Path(re.sub(r"\.(index|data-\d+-of-\d+)$", "", str(path)))
        if not Path(f"{prefix}.index").is_file():
            raise CheckpointError(
                f"{path} is not a model: expected a folder, an .hdf5 file, a .zip archive or the prefix of a "
                "TensorFlow checkpoint."
            )
        return prefix
    prefixes = sorted(file.with_suffix("") for file in path.glob("*.index"))
    record = path / "checkpoint"
    if record.is_file():
        latest = re.search(r'^model_checkpoint_path: "(.*)"', record.read_text("utf-8", "replace"), re.MULTILINE)
        # The path is often absolute and from another machine, so only its last part is used.
        name = Path(latest[1].replace("\\", "/")).name if latest else None
        prefixes = [prefix for prefix in prefixes if prefix.name == name] or prefixes
    if len(prefixes) != 1:
        names = ", ".join(prefix.name for prefix in prefixes)
        content = f"several TensorFlow checkpoints ({names})" if names else "no TensorFlow checkpoint (.index)"
        raise CheckpointError(f"{path} holds {content}; give the path of one.")
    return prefixes[0]


def read_tensorflow(prefix: Path, options: Path) -> Checkpoint:
    """Open the checkpoint PREFIX.index, with the vocabulary in its folder."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # otherwise TensorFlow logs CPU features
    tf = require("tensorflow", "tensorflow", "Reading a TensorFlow checkpoint")
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        variables = reader.get_variable_to_shape_map()
        # Optimizer slots are named after their variable, as in lm/char_embed/Adagrad.
        names = {
            _hdf5_name(name): name
            for name in variables
            if name.startswith("lm/") and name.rpartition("/")[0] not in variables
        }
        # A word-level model may use its input vectors as softmax weights (share_embedding_softmax).
        if "softmax/W" not in names and "embedding" in names:
            names["softmax/W"] = names["embedding"]
        config = bilm.read_options(read_json(options), str(options), with_softmax="softmax/b" in names)
        weights = bilm.import_weights(
            bilm.list_variables(config),
            names,
            lambda name: np.array(reader.get_tensor(name), dtype=np.float32),
            str(prefix),
        )
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError, IndexError, MemoryError) as error:
        raise CheckpointError(f"{prefix} is not a complete TensorFlow checkpoint: {first_line(error)}.") from error
    origin = {"format": "tensorflow", "source": prefix.name}
    return Checkpoint(config=config, weights=weights, vocabulary=read_vocabulary(prefix.parent), origin=origin)


def _hdf5_name(name: str) -> str:
    """Return the name of a variable in bilm-tf's HDF5 files."""
    name = name.removeprefix("lm/").replace("/rnn/", "/RNN/").replace("multi_rnn_cell/cell_", "MultiRNNCell/Cell")
    name = name.replace("lstm_cell", "LSTMCell").replace("projection/kernel", "W_P_0")
    return name.replace("kernel", "W_0").replace("bias", "B")
