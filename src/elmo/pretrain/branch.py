"""A run -> a new run that goes on from its last checkpoint with other settings; the first one stays as it is."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo.checkpoint.folder import write_json
from elmo.checkpoint.run_folder import CHECKPOINTS, RUN_FILE, list_checkpoints
from elmo.config import parse
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import CheckpointError, ConfigError
from elmo.files.durable import writing_aside
from elmo.pretrain import launch
from elmo.pretrain.distributed import Processes
from elmo.pretrain.metrics import METRICS_FILE
from elmo.pretrain.run import Run, count_updates
from elmo.pretrain.settings import TrainSettings, change

# What a checkpoint's tensors, positions and numbers of updates are made for, or what only counts at the start.
FIXED = (
    "model", "share_softmax", "softmax_bias", "num_rows", "num_steps", "windows_per_update", "optimizer.kind",
    "teacher.model", "teacher.heads",
)  # fmt: skip


def branch(source: Path, folder: Path, changes: Mapping[str, Any], *, device: str = "cpu") -> Run:
    """Copy the last checkpoint of a run to a new one in `folder` and open that; `changes` are by dotted name."""
    processes = Processes(device)
    if processes.is_first:
        _copy(source, folder, changes)
    processes.wait()
    return launch.reopen(folder, processes)


def _copy(source: Path, folder: Path, changes: Mapping[str, Any]) -> None:
    if folder.exists():
        raise ConfigError(f"{folder} is there already; give a new folder, or go on with --resume {folder}.")
    record = launch.read_inputs(source)
    found = list_checkpoints(source)
    if not found:
        raise CheckpointError(f"The training run in {source} has no checkpoint yet; wait for the first one.")
    where = f"The settings for {folder}"
    before = parse(TrainSettings, record["settings"], where).to_dict()
    settings = parse(TrainSettings, change(record["settings"], changes), where)
    after = settings.to_dict()
    moved = [name for name in FIXED if _at(before, name) != _at(after, name)]
    if moved:
        raise ConfigError(
            f"A run cannot go on with another {', '.join(moved)}; leave that as it is, or begin a new run with "
            f"this one's weights by --init {source}."
        )
    done = int(found[-1].name.rpartition("-")[2])
    if (last := count_updates(settings, PreparedCorpus.open(record["corpus"]))) <= done:
        raise ConfigError(
            f"{source} stands at update {done}, and by max_updates ({settings.max_updates}) and num_epochs "
            f"({settings.num_epochs:g}) the run ends at {last}; give more of them."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with writing_aside(folder) as aside:
            shutil.copytree(found[-1], aside / CHECKPOINTS / found[-1].name)
            if (source / METRICS_FILE).is_file():
                shutil.copy(source / METRICS_FILE, aside / METRICS_FILE)
            write_json(aside / RUN_FILE, {**record, "branched_from": str(source.resolve()), "settings": after})
    except OSError as error:
        reason = error.strerror or "files could not be copied"
        raise CheckpointError(
            f"{folder} could not be made from {source}: {reason}; mend that and run the same command again."
        ) from error


def _at(settings: Mapping[str, Any], dotted: str) -> Any:
    value: Any = settings
    for name in dotted.split("."):
        value = None if value is None else value[name]
    return value
