"""A comparison: the same seeds for each variant, a table, and resuming after a kill."""

import json
import shutil

import pytest

from elmo import CheckpointError, ConfigError, Elmo, InputError
from elmo.tasks import comparison
from elmo.tasks.comparison import ComparisonSettings, format_table, run_comparison, summarize
from elmo.tasks.shared_inputs import SharedInputs
from tests.conftest import TINY_CONFIG
from tests.tasks.toys import small


def result(variant, score, seed=0, fraction=1.0, mixes=()):
    return {
        "variant": variant, "fraction": fraction, "seed": seed, "metric": "f1", "test": {"f1": score}, "dev": {},
        "mixes": list(mixes), "num_train": 10,
    }  # fmt: skip


def test_error_reduction_is_relative_to_the_baseline():
    mix = {"weights": [0.2, 0.8], "gamma": 2.0}
    rows = summarize(
        [result("baseline", 79.0), result("baseline", 81.0, 1), result("learned", 84.0, 0, mixes=[mix]),
         result("learned", 86.0, 1, mixes=[{"weights": [0.4, 0.6], "gamma": 1.0}])]
    )  # fmt: skip
    assert [row.mean for row in rows] == [80.0, 85.0]
    assert rows[0].error_reduction is None
    assert rows[1].error_reduction == pytest.approx(25.0)
    assert rows[1].spread == pytest.approx(2**0.5)
    assert rows[1].mixes == [{"weights": pytest.approx([0.3, 0.7]), "gamma": 1.5}]
    last = format_table(rows).splitlines()[-1]
    assert last == "| learned | 100% (10) | f1 85.00 | ± 1.41 | 25.0% | 0.30 0.70 | 1.50 |"


def test_runs_are_kept_as_tasks_only_if_requested(toy_inputs, tmp_path):
    settings, request = small("classification", fit__num_epochs=1), ComparisonSettings(("learned",), (0,))
    for keep in (True, False):
        folder = tmp_path / f"kept-{keep}"
        run_comparison(SharedInputs(toy_inputs("classification")), settings, folder, request, keep=keep)
        assert (folder / "runs" / "learned-1-0" / "task.json").exists() == keep


def test_an_interrupted_comparison_resumes_with_every_fraction(toy_inputs, tmp_path, monkeypatch):
    settings = small("classification", fit__num_epochs=1)
    request = ComparisonSettings(("baseline", "top"), (0, 1), (0.5, 1.0))
    done = []
    train = comparison.train_task

    def train_some(bench, settings, folder, **more):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(folder.name)
        return train(bench, settings, folder, **more)

    monkeypatch.setattr(comparison, "train_task", train_some)
    folder = tmp_path / "compared"
    with pytest.raises(KeyboardInterrupt):
        run_comparison(SharedInputs(toy_inputs("classification")), settings, folder, request)
    assert not (folder / "results.json").exists()
    monkeypatch.setattr(
        comparison, "train_task", lambda *given, **more: (done.append(given[2].name), train(*given, **more))[1]
    )
    rows = run_comparison(SharedInputs(toy_inputs("classification")), settings, folder, request)
    assert len(done) == len(set(done)) == 8
    assert [(row.variant, row.fraction) for row in rows] == [
        (variant, fraction) for fraction in (0.5, 1.0) for variant in request.variants
    ]
    assert [row.num_train for row in rows[:1]] == [12]
    results = json.loads((folder / "results.json").read_text())
    assert {(run["variant"], run["settings"]["elmo"]["where"]) for run in results["runs"]} == {
        ("baseline", "none"),
        ("top", "input"),
    }


def test_other_settings_do_not_mix_into_an_old_comparison(toy_inputs, tmp_path):
    request = ComparisonSettings(("baseline",), (0,))
    bench = SharedInputs(toy_inputs("classification"))
    run_comparison(bench, small("classification", fit__num_epochs=1), tmp_path / "c", request)
    with pytest.raises(InputError, match="holds a comparison with other settings"):
        run_comparison(bench, small("classification", fit__num_epochs=2), tmp_path / "c", request)


def test_an_unknown_variant_is_rejected():
    with pytest.raises(ConfigError, match="There is no variant 'frozen'"):
        ComparisonSettings(("frozen",))


def test_runs_with_another_bilm_do_not_mix_into_an_old_comparison(toy_inputs, tmp_path):
    Elmo.from_config(TINY_CONFIG, seed=1).save_pretrained(tmp_path / "moving")
    inputs, settings = toy_inputs("classification", model=str(tmp_path / "moving")), small("classification")
    request = ComparisonSettings(("learned",), (0,))
    run_comparison(SharedInputs(inputs), settings, tmp_path / "c", request)
    shutil.rmtree(tmp_path / "moving")
    Elmo.from_config(TINY_CONFIG, seed=2).save_pretrained(tmp_path / "moving")
    with pytest.raises(InputError, match="holds runs with a different biLM than .*moving is now"):
        run_comparison(SharedInputs(inputs), settings, tmp_path / "c", ComparisonSettings(("learned", "top"), (0,)))


def test_a_comparison_resumes_if_its_record_has_a_removed_setting(toy_inputs, tmp_path):
    settings, folder = small("question_answering", fit__num_epochs=1), tmp_path / "c"
    shared = SharedInputs(toy_inputs("question_answering"))
    run_comparison(shared, settings, folder, ComparisonSettings(("baseline",), (0,)))
    record = json.loads((folder / "compare.json").read_text())
    record["inputs"]["cache_bytes"], record["settings"]["elmo"]["context"] = 2**30, "none"
    (folder / "compare.json").write_text(json.dumps(record))
    begun = []
    comparison = ComparisonSettings(("baseline",), (0, 1))
    shared.report.on_epoch = lambda record: begun.append(shared.report.run_name)
    rows = run_comparison(shared, settings, folder, comparison)
    assert begun == ["baseline-1-1 (2 of 2), "] and rows[0].num_seeds == 2
    (folder / "compare.json").write_text('{"inputs": 3}')
    with pytest.raises(CheckpointError, match="compare.json is damaged"):
        run_comparison(shared, settings, folder, comparison)


def test_text_classifiers_are_compared_with_tfidf():
    assert ComparisonSettings().choose_variants("classification") == ("baseline", "learned", "tfidf")
    assert ComparisonSettings().choose_variants("tagging") == ("baseline", "learned")
    assert ComparisonSettings(("top",)).choose_variants("tagging") == ("top",)
