"""What the package says of itself: its licence covers all that is in it, and it has one cache."""

import re
from pathlib import Path

import pytest

from elmo.checkpoint.derived import license_of
from elmo.checkpoint.download import cache_folder
from elmo.checkpoint.source import EMBEDDED
from elmo.tasks.layer_store import default_cache_folder

ROOT = Path(__file__).parent.parent
VARIABLES = ("ELMO_CACHE", "ELMO_LAYER_CACHE", "XDG_CACHE_HOME")


def test_the_licence_expression_names_the_licence_of_each_embedded_model():
    expression = re.search(r'^license = "(.+?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    named = {part.lower() for part in expression.split(" AND ")}
    assert "apache-2.0" in named
    for name, folder in EMBEDDED.items():
        assert license_of((folder / "README.md").read_text()) in named, name
        notice = (ROOT / "LICENSES" / f"{name}-weights.txt").read_text()
        assert license_of((folder / "README.md").read_text()) in notice.lower()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [("ELMO_CACHE", "mine", "mine"), ("XDG_CACHE_HOME", "caches", "caches/modern-elmo")],
)
def test_downloads_and_layers_share_one_cache_root(monkeypatch, tmp_path, variable, value, expected):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / value))
    assert cache_folder() == tmp_path / expected
    assert default_cache_folder() == tmp_path / expected / "layers"


def test_the_old_variable_is_honoured_with_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("ELMO_LAYER_CACHE", str(tmp_path))
    assert default_cache_folder() == tmp_path
    assert "ELMO_LAYER_CACHE is deprecated; set ELMO_CACHE" in caplog.text
