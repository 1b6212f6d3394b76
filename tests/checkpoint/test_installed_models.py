"""Models that are installed: folders of the package and entry points of other distributions, found by name."""

import importlib.metadata
import sys

import pytest

from elmo import CheckpointError, Elmo
from elmo.checkpoint import source
from elmo.text.units import ScriptWatch, UnfamiliarScriptWarning


@pytest.fixture
def fresh():
    source.installed_models.cache_clear()
    yield
    source.installed_models.cache_clear()


def test_a_folder_in_the_package_is_a_model_by_its_name(fresh, monkeypatch, tmp_path, tiny_model):
    tiny_model.save_pretrained(tmp_path / "zh-small")
    (tmp_path / "notes").mkdir()
    monkeypatch.setattr(source, "MODELS_FOLDER", tmp_path)
    assert Elmo.from_pretrained("zh-small").config == tiny_model.config
    assert "notes" not in source.installed_models()
    with pytest.raises(CheckpointError, match="No model was found at 'zz-small'; .* or one of zh-small, small"):
        Elmo.from_pretrained("zz-small")


def test_a_distribution_adds_a_model_by_an_entry_point(fresh, monkeypatch, tmp_path, tiny_model):
    tiny_model.save_pretrained(tmp_path / "elmo_of_somebody")
    (tmp_path / "elmo_of_somebody" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = [
        importlib.metadata.EntryPoint("somebody", "elmo_of_somebody", source.ENTRY_POINTS),
        importlib.metadata.EntryPoint("absent", "elmo_of_nobody", source.ENTRY_POINTS),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries if group == "elmo.models" else [])
    assert Elmo.from_pretrained("somebody").config == tiny_model.config
    assert "absent" not in source.installed_models()
    assert "elmo_of_somebody" not in sys.modules  # the package is found, not run


def test_the_warning_about_a_script_names_the_installed_model_for_it(fresh, monkeypatch, tmp_path, tiny_model):
    monkeypatch.setattr(source, "MODELS_FOLDER", tmp_path)
    watch = ScriptWatch(["the", "cat"], source.models_by_script)
    with pytest.warns(UnfamiliarScriptWarning, match="so its answers mean little here; use a model for this language"):
        watch.check([["我", "吃"]])
    tiny_model.save_pretrained(tmp_path / "zh-small")
    source.installed_models.cache_clear()
    watch = ScriptWatch(["the", "cat"], source.models_by_script)
    with pytest.warns(UnfamiliarScriptWarning, match="use the model zh-small"):
        watch.check([["我", "吃"]])
