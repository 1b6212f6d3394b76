"""The HDF5 file AllenNLP's `elmo` command wrote: a dataset a sentence, written aside and then renamed."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError
from elmo.files.durable import writing_aside

INDEX_NAME = "sentence_to_index"


def write_sentence_file(
    path: Path,
    vectors: Iterable[tuple[str, npt.NDArray[np.float32]]],
    sentence_to_index: Mapping[str, str] | None,
) -> None:
    """Write each array under its name, and the JSON index if there is one; nothing is left if it fails."""
    import h5py

    try:
        with writing_aside(path) as aside, h5py.File(aside, "w") as file:
            for name, array in vectors:
                file.create_dataset(name, data=array, dtype="float32")
            if sentence_to_index is not None:
                index = file.create_dataset(INDEX_NAME, (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps(sentence_to_index)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}.") from error


def check_sentence_keys(sentences: Sequence[str]) -> None:
    """Refuse sentences that cannot name a dataset each."""
    times = Counter(sentences)
    for number, sentence in enumerate(sentences):
        if sentence in ("", ".") or "/" in sentence or "\0" in sentence:
            fault = "which HDF5 does not take as a name (no '/', and neither empty nor '.')"
        elif times[sentence] > 1:
            fault = f"which occurs {times[sentence]} times, so it cannot name one dataset"
        else:
            continue
        raise InputError(
            f"Line {number} is {sentence!r:.80}, {fault}; leave use_sentence_keys out to name datasets by number."
        )
