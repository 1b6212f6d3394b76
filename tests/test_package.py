"""Files around the code agree with it: license, version, caches, included models."""

import re
from pathlib import Path

import pytest
import yaml

import elmo
from elmo import __version__
from elmo.checkpoint.folder import card_field
from elmo.checkpoint.location import cache_folder
from elmo.checkpoint.source import installed_models
from elmo.cli import main
from elmo.tasks.layer_store import default_cache_folder

ROOT = Path(__file__).parent.parent
VARIABLES = ("ELMO_CACHE", "XDG_CACHE_HOME")


def test_the_license_expression_names_the_license_of_each_embedded_model():
    expression = re.search(r'^license = "(.+?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    named = {part.lower() for part in expression.split(" AND ")}
    assert "apache-2.0" in named
    for name, folder in installed_models().items():
        assert card_field((folder / "README.md").read_text(), "license") in named, name
        notice = (ROOT / "LICENSES" / f"{name}-weights.txt").read_text()
        assert card_field((folder / "README.md").read_text(), "license") in notice.lower()


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


def test_changelog_and_citation_name_the_version_of_the_package():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert releases[0] == (__version__, citation["date-released"])
    assert citation["version"] == __version__


def test_models_are_listed_by_the_names_that_open_them():
    assert elmo.list_models()[: len(installed_models())] == list(installed_models())
    assert {"en-small", "zh-small", "original"} <= {*elmo.list_models()}


@pytest.mark.parametrize("name", sorted(installed_models()))
def test_an_included_model_is_complete(name, capsys):
    assert main(["info", name, "--json"]) == 0, capsys.readouterr().err  # compares the checksums
