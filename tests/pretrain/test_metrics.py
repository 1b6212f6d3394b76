"""The metrics of a run, as JSON lines."""

import math
from pathlib import Path

import pytest

from elmo.errors import ElmoError
from elmo.pretrain.metrics import append_metrics, drop_metrics, read_metrics


def write(run, updates, *, resumed_at=0, loss=1.0):
    drop_metrics(run, after=resumed_at)
    for update in updates:
        append_metrics(run, "train", update, {"loss": loss + update})


def test_lines_after_the_update_resumed_from_are_written_again(tmp_path):
    write(tmp_path, range(1, 6))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "upd')  # killed while it wrote
    write(tmp_path, range(4, 7), resumed_at=3, loss=2.0)
    assert [(line["update"], line["loss"]) for line in read_metrics(tmp_path)] == [
        (1, 2.0), (2, 3.0), (3, 4.0), (4, 6.0), (5, 7.0), (6, 8.0),
    ]  # fmt: skip


def test_a_loss_that_is_no_number_is_null(tmp_path):
    append_metrics(tmp_path, "train", 1, {"loss": math.inf})
    assert list(read_metrics(tmp_path)) == [{"kind": "train", "update": 1, "loss": None}]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_sentence(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(ElmoError, match=r"could not be written to .*\(No space left on device\)"):
        append_metrics(tmp_path, "train", 1, {"loss": 1.0})
