"""Installed models: the folders in the package, found by name."""

import pytest

from elmo import CheckpointError, Elmo
from elmo.checkpoint import source
from elmo.text.units import ScriptWatch, UnfamiliarScriptWarning


def test_a_folder_in_the_package_is_a_model_by_its_name(monkeypatch, tmp_path, tiny_model):
    tiny_model.save_pretrained(tmp_path / "zh-small")
    (tmp_path / "notes").mkdir()
    monkeypatch.setattr(source, "MODELS_FOLDER", tmp_path)
    assert Elmo.from_pretrained("zh-small").config == tiny_model.config
    assert "notes" not in source.installed_models()
    with pytest.raises(CheckpointError, match="No model was found at 'zz-small'"):
        Elmo.from_pretrained("zz-small")


def test_the_warning_about_a_script_names_the_model_for_it():
    with pytest.warns(UnfamiliarScriptWarning, match="use a model for this language"):
        ScriptWatch(["the", "cat"], {}).check([["我", "吃"]])
    with pytest.warns(UnfamiliarScriptWarning, match="use the model zh-small"):
        ScriptWatch(["the", "cat"], source.MODELS_BY_SCRIPT).check([["我", "吃"]])
