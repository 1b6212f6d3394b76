"""Failures in training: one sentence, exit code 2, and exact resumption from the last checkpoint."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from elmo import Elmo
from elmo.checkpoint.source import list_checkpoints
from elmo.cli.run import main
from elmo.files.durable import LOCK
from elmo.pretrain.launch import start_run
from elmo.pretrain.metrics import read_metrics
from elmo.pretrain.settings import read_settings

CHANGES = {
    "model.encoder.cell_dim": 16,
    "model.encoder.output_dim": 8,
    "num_rows": 4,
    "num_steps": 10,
    "num_samples": 8,
    "dropout": 0.2,
    "log_every": 1,
    "checkpoint_every": 10,
    "max_updates": 24,
}
SETTINGS = read_settings(preset="tiny", changes=CHANGES)
PAGE = os.sysconf("SC_PAGE_SIZE")
TRAIN = [sys.executable, "-m", "elmo", "train"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
# With a place where a changed byte matters, if it is not any.
CHECKPOINT_FILES = {
    "config.json": 5,
    "weights.safetensors": -1,
    "training/optimizer.pt": 20_000,
    "training/rows-0.pt": 2000,
    "training/progress.json": 3,
}
# A folder of its own file system, small enough to be full soon; gone with the process that sees it.
IN_A_SMALL_FILE_SYSTEM = """
set -e
size=$1 folder=$2
shift 2
cp -r "$folder" "$folder.copy"
mount -t tmpfs -o size="$size" tmpfs "$folder"
cp -r "$folder.copy/." "$folder"
set +e
"$@"
code=$?
cp -r "$folder" "$folder.after"
exit $code
"""


def losses(run):
    return [line for line in read_metrics(run) if line["kind"] == "train"]


def names(run):
    return [folder.name for folder in list_checkpoints(run)]


def list_all(folder):
    """The names of a folder's entries, hidden ones too."""
    return sorted(entry.name for entry in folder.iterdir())


def pages(path):
    """How many bytes of whole pages a file, or the files of a folder, take."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(-(-file.stat().st_size // PAGE) * PAGE for file in files)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def elmo_train(capsys, *arguments):
    """Run the command here; give its exit code and what it messages, the notes of saved checkpoints left out."""
    code = main(["train", *map(str, arguments)])
    messages = capsys.readouterr().err.splitlines()
    return code, [line for line in messages if not line.startswith(("saved ", "Resuming "))]


def as_options(changes):
    return ["--preset", "tiny", *(part for item in changes.items() for part in ("--set", "{}={}".format(*item)))]


def only_sentence(completed):
    messages = [line for line in completed.stderr.splitlines() if not line.startswith(("saved ", "Resuming "))]
    assert completed.returncode == 2 and len(messages) == 1, completed.stderr
    return messages[0]


@pytest.fixture(scope="module")
def whole(corpus_folder, tmp_path_factory):
    """The losses of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    start_run(folder, corpus_folder, SETTINGS).train()
    return losses(folder)


@pytest.fixture
def stopped(corpus_folder, tmp_path):
    """A run that ended after its first checkpoint, at update 10."""
    return stop_at(12, tmp_path / "run", corpus_folder)


@pytest.fixture(scope="module")
def stopped_later(corpus_folder, tmp_path_factory):
    """A run that ended after its second checkpoint, at update 20; to be copied."""
    return stop_at(22, tmp_path_factory.mktemp("stopped") / "run", corpus_folder)


def stop_at(update, folder, corpus):
    run = start_run(folder, corpus, SETTINGS)

    def stop():
        if run.state.num_updates == update:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(should_stop=stop)
    return folder


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    """Skip where a process may not mount a file system of its own."""
    folder = tmp_path_factory.mktemp("mount")
    try:
        tried = subprocess.run(
            ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare here to mount a small file system with")
    if tried.returncode:
        pytest.skip(f"no small file system can be mounted here: {tried.stderr.strip()}")


@pytest.mark.parametrize(
    "full_at",
    [
        pytest.param("numbers", marks=pytest.mark.slow),
        pytest.param("weights", marks=pytest.mark.slow),
        "optimizer",
    ],
)
def test_a_full_disk_ends_a_run_that_resumes_when_there_is_room(namespaces, stopped, whole, capsys, full_at):
    checkpoint = list_checkpoints(stopped)[0]
    optimizer = pages(checkpoint / "training" / "optimizer.pt")
    room = {
        "numbers": 0,
        "weights": pages(checkpoint / "weights.safetensors") // 2,
        "optimizer": pages(checkpoint) - optimizer // 2,
    }[full_at]
    others = 0 if full_at == "numbers" else 4 * PAGE  # more lines of numbers
    size = str(pages(stopped) + room + others)
    shell = ["unshare", "-Urm", "sh", "-c", IN_A_SMALL_FILE_SYSTEM, "sh", size, str(stopped)]
    completed = subprocess.run(
        [*shell, *TRAIN, "--resume", str(stopped)], capture_output=True, text=True, env=ONE_THREAD
    )
    sentence = only_sentence(completed)
    assert "No space left on device" in sentence and f"resume with --resume {stopped}." in sentence
    expected = "metrics of the run" if full_at == "numbers" else f"be saved to {stopped}/checkpoints/update-00000020"
    assert expected in sentence
    after = stopped.with_name("run.after")
    assert list_all(after / "checkpoints") == ["update-00000010"]
    Elmo.from_pretrained(after)
    assert elmo_train(capsys, "--resume", after) == (0, [])
    assert losses(after) == whole


@pytest.mark.slow
@pytest.mark.needs("resource")
def test_a_file_that_may_not_grow_ends_a_run_that_resumes_later(stopped, whole, capsys):
    import resource

    training = list_checkpoints(stopped)[0] / "training"
    limit = (training / "optimizer.pt").stat().st_size - 1000
    completed = subprocess.run(
        [*TRAIN, "--resume", str(stopped)],
        capture_output=True,
        text=True,
        env=ONE_THREAD,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    sentence = only_sentence(completed)
    assert "update-00000020: [Errno 27] File too large; the earlier checkpoints are complete" in sentence
    assert list_all(stopped / "checkpoints") == ["update-00000010"]
    assert elmo_train(capsys, "--resume", stopped) == (0, [])
    assert losses(stopped) == whole


@pytest.mark.slow
def test_a_shard_cut_off_while_a_run_reads_it_ends_the_run(corpus_folder, tmp_path):
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(corpus_folder, corpus)
    changes = {**CHANGES, "num_steps": 50, "max_updates": 5000}
    process = subprocess.Popen(
        [*TRAIN, str(corpus), "-o", str(run), *as_options(changes)],
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
    )
    while not names(run):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.truncate(corpus / "shards" / "00000.npy", 5000)
    _, messages = process.communicate(timeout=120)
    completed = subprocess.CompletedProcess(process.args, process.returncode, stderr=messages)
    assert "shards/00000.npy is truncated, or has word ids that are out of range" in only_sentence(completed)
    assert names(run)
    Elmo.from_pretrained(run)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda path: flip(path, -1), "has a checksum mismatch"),
        (lambda path: os.truncate(path, 5000), "has 5,000 bytes, not "),
    ],
    ids=["flipped", "cut off"],
)
def test_a_damaged_shard_is_reported_when_a_run_resumes(corpus_folder, whole, tmp_path, capsys, damage, expected):
    corpus = tmp_path / "corpus"
    shutil.copytree(corpus_folder, corpus)
    run = stop_at(12, tmp_path / "run", corpus)
    shard = corpus / "shards" / "00000.npy"
    good = shard.read_bytes()
    damage(shard)
    code, messages = elmo_train(capsys, "--resume", run)
    assert code == 2 and len(messages) == 1
    assert f"shards/{shard.name} {expected}" in messages[0] and "prepare the corpus again with --force" in messages[0]
    assert names(run) == ["update-00000010"]
    shard.write_bytes(good)
    assert elmo_train(capsys, "--resume", run) == (0, [])
    assert losses(run) == whole


@pytest.mark.parametrize("damage", ["cut off", "flipped", "missing"])
@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_a_damaged_checkpoint_is_named(stopped_later, tmp_path, capsys, name, damage):
    run = shutil.copytree(stopped_later, tmp_path / "run")
    last = list_checkpoints(run)[-1]
    if damage == "cut off":
        os.truncate(last / name, (last / name).stat().st_size // 2)
    elif damage == "flipped":
        flip(last / name, CHECKPOINT_FILES[name])
    else:
        (last / name).unlink()
    code, messages = elmo_train(capsys, "--resume", run)
    assert code == 2 and len(messages) == 1 and str(last) in messages[0]
    assert "so training cannot resume from there; delete that checkpoint to resume from the one before" in messages[0]


def test_the_checkpoint_before_a_damaged_one_resumes(stopped_later, whole, tmp_path, capsys):
    run = shutil.copytree(stopped_later, tmp_path / "run")
    before, last = list_checkpoints(run)
    (last / "weights.safetensors").unlink()
    assert elmo_train(capsys, "--resume", run)[0] == 2
    assert [before, last] == list_checkpoints(run)
    shutil.rmtree(last)
    assert elmo_train(capsys, "--resume", run) == (0, [])
    assert losses(run) == whole


def test_partial_checkpoints_of_killed_processes_are_removed(stopped, capsys):
    (stopped / "checkpoints" / ".update-00000020.saving-1").mkdir()
    assert elmo_train(capsys, "--resume", stopped) == (0, [])
    assert list_all(stopped / "checkpoints") == ["update-00000020", "update-00000024"]


def test_a_run_is_trained_by_one_command_at_a_time(stopped, whole, capsys):
    with FileLock(stopped / LOCK):  # as another process holds it
        code, messages = elmo_train(capsys, "--resume", stopped)
    assert code == 2
    assert messages[-1] == f"elmo: Another process is training in {stopped}; wait for it, or stop it first."
    assert elmo_train(capsys, "--resume", stopped) == (0, [])
    assert losses(stopped) == whole


def test_a_loss_that_is_no_number_leaves_the_last_checkpoint(stopped, whole, capsys):
    record = (stopped / "run.json").read_text()
    assert record.count('"learning_rate": 0.2') == 1
    (stopped / "run.json").write_text(record.replace('"learning_rate": 0.2', '"learning_rate": 1e30'))
    code, messages = elmo_train(capsys, "--resume", stopped)
    assert code == 2 and len(messages) == 1
    assert "is not a number at update 12; the last checkpoint is good" in messages[0]
    assert names(stopped) == ["update-00000010"]
    (stopped / "run.json").write_text(record)
    assert elmo_train(capsys, "--resume", stopped) == (0, [])
    assert losses(stopped) == whole


def test_a_run_resumes_from_any_folder_without_the_model_it_began_with(
    corpus_folder, stopped_later, tmp_path, capsys, monkeypatch
):
    shutil.copytree(stopped_later, tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    changes = {"num_rows": 4, "num_samples": 8, "max_updates": 10, "checkpoint_every": 5}
    assert elmo_train(capsys, corpus_folder, "-o", "second", "--init", "first", *as_options(changes))[0] == 0
    monkeypatch.chdir("/")
    shutil.rmtree(list_checkpoints(tmp_path / "second")[-1])
    shutil.rmtree(list_checkpoints(tmp_path / "second")[-1])
    assert elmo_train(capsys, "--resume", tmp_path / "second") == (0, [])
    shutil.rmtree(list_checkpoints(tmp_path / "second")[-1])
    shutil.rmtree(tmp_path / "first")
    assert elmo_train(capsys, "--resume", tmp_path / "second") == (0, [])
