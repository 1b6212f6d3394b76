"""A trained task, or a comparison of tasks -> what each layer counts in it: s_j and γ."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.tasks.comparison import RESULTS_FILE
from elmo.tasks.folder import read_json, read_task

_MIX = re.compile(r"encoder\.elmo\.(?:mixes\.)?(\d+)\.weights")


@dataclass(frozen=True)
class MixingWeights:
    """The mix of one place of one task; `weights` sum to 1."""

    task: str
    place: str  # input: beside the words; output: beside what the network made of them
    weights: tuple[float, ...]
    gamma: float

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        return asdict(self)


def mixing_weights(task_folder: str | Path) -> tuple[MixingWeights, ...]:
    """Read the mixes of a task that `elmo task train` wrote, or of each variant that its --compare did."""
    folder = Path(task_folder)
    found = _read_comparison(folder) if (folder / RESULTS_FILE).is_file() else _read_one(folder)
    found = tuple(each for each in found if len(each.weights) > 1)
    if not found:
        raise InputError(f"{folder} has learned no mix of layers; train it with --layers learned.")
    return found


def _read_one(folder: Path) -> tuple[MixingWeights, ...]:
    description, _, weights = read_task(folder)
    places = _name_places(description.settings.elmo.where)
    found = []
    for name in sorted(weights):
        if match := _MIX.fullmatch(name):
            gamma = weights[name.removesuffix("weights") + "gamma"].item()
            shares = tuple(weights[name].softmax(dim=0).tolist())
            found.append(MixingWeights(folder.name, places[int(match[1])], shares, gamma))
    return tuple(found)


def _read_comparison(folder: Path) -> tuple[MixingWeights, ...]:
    rows = read_json(folder / RESULTS_FILE)["rows"]
    fullest = max((row["fraction"] for row in rows), default=1.0)
    return tuple(
        MixingWeights(f"{folder.name}, {row['variant']}", place, tuple(mix["weights"]), mix["gamma"])
        for row in rows
        if row["fraction"] == fullest
        for place, mix in zip(_name_mixes(row), row["mixes"], strict=True)
    )


def _name_mixes(row: dict[str, Any]) -> Sequence[str]:
    if len(row["mixes"]) == 2:
        return _name_places("both")
    return _name_places("output" if row["variant"] == "output" else "input")[: len(row["mixes"])]


def _name_places(where: str) -> Sequence[str]:
    return {"both": ("input", "output"), "output": ("output",)}.get(where, ("input",))
