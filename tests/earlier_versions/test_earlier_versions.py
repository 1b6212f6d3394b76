"""Folders written by commit bbefda1 open, resume, predict and verify with today's code, and give the same answers.

make_folders.py, run in a checkout of that commit, wrote both the folders and its own answers beside them.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo, tasks, vectors
from elmo.cli import main
from tests.earlier_versions.make_folders import JOB_OPTIONS, PLACE, SENTENCES, UNSEEN, VECTOR_JOBS

WRITTEN = Path(__file__).parent / "bbefda1"
MODELS = sorted(folder.name for folder in (WRITTEN / "models").iterdir())
TASKS = ("carried", "named")
# Inference and training are the same arithmetic in another order.
VECTOR_TOLERANCE, LOSS_TOLERANCE = 1e-5, 1e-4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in, which the records that name absolute paths know."""
    copy = tmp_path / "written"
    shutil.copytree(WRITTEN, copy)
    for record in copy.rglob("*.json"):
        text = record.read_text(encoding="utf-8")
        if PLACE in text:
            record.write_text(text.replace(PLACE, str(copy)), encoding="utf-8")
    monkeypatch.chdir(copy)
    return copy


def read_answers(name: str) -> dict:
    return json.loads((WRITTEN / "answers" / name).read_text(encoding="utf-8"))


def read_arrays(name: str, prefix: str) -> dict[str, np.ndarray]:
    with np.load(WRITTEN / "answers" / name) as answers:
        return {key.removeprefix(f"{prefix}/"): answers[key] for key in answers if key.startswith(f"{prefix}/")}


def hash_files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def check_finished(code: int, errors: str) -> None:
    """Accept a folder as finished; other releases of torch and pyarrow may be refused, ours must not be."""
    assert code in (0, 2)
    assert "modern-elmo was" not in errors and "inputs" not in errors
    assert code == 0 or "was" in errors


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_vectors_and_scores_they_gave(name: str) -> None:
    model, answers = Elmo.from_pretrained(WRITTEN / "models" / name), read_arrays("models.npz", name)
    for number, layers in enumerate(model.embed(SENTENCES, layers="all")):
        np.testing.assert_allclose(layers, answers[str(number)], atol=VECTOR_TOLERANCE)
    if "perplexity" in answers:
        scores = [score.perplexity for score in model.score(SENTENCES)]
        np.testing.assert_allclose(scores, answers["perplexity"], rtol=LOSS_TOLERANCE)
    assert ("perplexity" in answers) == (model.config.softmax is not None)


@pytest.mark.parametrize("name", MODELS)
def test_info_verifies_the_checksums_of_models(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(WRITTEN / "models" / name), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "hdf5"])
def test_saving_a_model_again_writes_the_same_bytes(name: str, tmp_path: Path) -> None:
    assert main(["convert", str(WRITTEN / "models" / name), str(tmp_path / "again")]) == 0
    again, written = hash_files(tmp_path / "again"), hash_files(WRITTEN / "models" / name)
    del again["config.json"], written["config.json"]
    assert again == written
    config = json.loads((tmp_path / "again" / "config.json").read_text(encoding="utf-8"))
    assert config.pop("model_type") == "elmo"  # new in 0.2.0, for transformers' Auto classes
    assert config == json.loads((WRITTEN / "models" / name / "config.json").read_text(encoding="utf-8"))


def test_preparing_the_same_text_leaves_a_finished_corpus_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hash_files(folder / "corpus")
    options = ["--split", "lines", "--vocabulary-size", "15", "--workers", "1"]
    code = main(["prepare", "data/corpus.txt", "-o", "corpus", *options])
    check_finished(code, capsys.readouterr().err)
    assert hash_files(folder / "corpus") == before


def test_a_model_opens_from_its_run(folder: Path) -> None:
    [found] = Elmo.from_pretrained("run").embed(SENTENCES[:1])
    [same] = Elmo.from_pretrained("run/checkpoints/update-00000010").embed(SENTENCES[:1])
    np.testing.assert_array_equal(found, same)


def test_a_resumed_run_repeats_the_losses_of_the_whole_one(folder: Path) -> None:
    answers = read_answers("run.json")
    assert main(["train", "--resume", "run"]) == 0
    metrics = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["update"]) for line in metrics] == [
        (line["kind"], line["update"]) for line in answers["metrics"]
    ]
    for line, expected in zip(metrics, answers["metrics"], strict=True):
        for name, value in expected.items():
            if isinstance(value, float):
                assert line[name] == pytest.approx(value, rel=LOSS_TOLERANCE), (line["update"], name)
    [found] = Elmo.from_pretrained("run/checkpoints/update-00000020").embed(SENTENCES[:1], layers="all")
    np.testing.assert_allclose(found, answers["last_checkpoint"], atol=LOSS_TOLERANCE)


@pytest.mark.parametrize("name", TASKS)
def test_tasks_predict_what_they_predicted(name: str, folder: Path) -> None:
    found = tasks.load(Path("tasks") / name).predict(UNSEEN)
    expected = read_answers("tasks.json")["predictions"]
    assert [list(each.words) for each in found] == [each["words"] for each in expected]
    assert [list(each.tags) for each in found] == [each["tags"] for each in expected]


def test_a_task_measures_what_it_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", "evaluate", "tasks/carried", "data/test.conll", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for name, value in read_answers("tasks.json")["scores"]["test"].items():
        assert found[name] == pytest.approx(value, rel=LOSS_TOLERANCE), name


def test_a_resumed_task_repeats_the_history_of_the_whole_one(folder: Path) -> None:
    expected = read_answers("tasks.json")["scores"]
    assert main(["task", "train", "--resume", "tasks/stopped"]) == 0
    found = json.loads(Path("tasks/stopped/scores.json").read_text())
    assert found["best_epoch"] == expected["best_epoch"]
    assert [line["epoch"] for line in found["history"]] == [line["epoch"] for line in expected["history"]]
    for line, then in zip(found["history"], expected["history"], strict=True):
        assert line["loss"] == pytest.approx(then["loss"], rel=LOSS_TOLERANCE), line["epoch"]
        assert line["dev"] == pytest.approx(then["dev"], rel=LOSS_TOLERANCE), line["epoch"]


@pytest.mark.parametrize("name", VECTOR_JOBS)
def test_vector_folders_have_the_rows_they_had(name: str) -> None:
    rows, answers = vectors.open(WRITTEN / "vectors" / name), read_arrays("vectors.npz", name)
    assert {row.id for row in rows} == set(answers)
    for row in rows:
        np.testing.assert_array_equal(row.vectors, answers[row.id])
        assert row.vectors.dtype == answers[row.id].dtype


@pytest.mark.parametrize("name", VECTOR_JOBS)
def test_vector_folders_are_verified(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", f"vectors/{name}"]) == 0
    part = sorted(Path(f"vectors/{name}").glob("part-00001.*"))[0]
    part.write_bytes(part.read_bytes()[:-1] + b"\x00\x01")
    assert main(["info", f"vectors/{name}"]) == 2
    assert part.name in capsys.readouterr().err


@pytest.mark.parametrize("name", VECTOR_JOBS)
def test_the_same_command_leaves_a_finished_vector_folder_as_it_is(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hash_files(folder / "vectors" / name)
    command, *options = VECTOR_JOBS[name]
    code = main([command, "data/rows.jsonl", "-o", f"vectors/{name}", *options, *JOB_OPTIONS])
    check_finished(code, capsys.readouterr().err)
    assert hash_files(folder / "vectors" / name) == before


@pytest.mark.parametrize("name", ["words-parquet", "sentences-npy", "spans-npy"])
def test_the_same_vectors_are_computed_today(name: str, folder: Path) -> None:
    command, *options = VECTOR_JOBS[name]
    assert main([command, "data/rows.jsonl", "-o", "again", *options, *JOB_OPTIONS]) == 0
    answers = read_arrays("vectors.npz", name)
    for row in vectors.open("again"):
        np.testing.assert_allclose(row.vectors, answers[row.id], atol=VECTOR_TOLERANCE)
