"""A missing extra is reported with a command that installs it."""

import sys

import pytest

from elmo.errors import ConfigError
from elmo.extras import install_command, require


def test_a_missing_module_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError) as error:
        require("torch", "train", "elmo train")
    assert str(error.value) == f"elmo train needs torch: {install_command('train')}"
    assert "[train]" in str(error.value)


def test_an_installed_module_that_fails_to_import_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="a_module_that_is_not_there"):
        require("broken_package", "train", "This")
