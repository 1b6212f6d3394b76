"""A tiny random model in the files of the original programs, and sentences for it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.model import Elmo

WORDS = [["I", "went", "to", "the", "bank"], ["the", "river", "bank"], ["café"]]

# What every class of compat rejects in place of lists of words, and what it says.
with_wrong_sentences = pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["I", "went"], "Sentence 0 is 'I' of type str; put the words"),
        ([["I"], ["went", 7]], "Sentence 1 has 7 of type int at word 1; every word must be a string."),
        ([], "An empty list was given"),
    ],
)


@pytest.fixture(scope="session")
def tiny_folder(tiny_model: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """options.json and weights.hdf5 of the tiny model."""
    folder = tmp_path_factory.mktemp("tiny")
    write_hdf5(tiny_model.checkpoint(), folder)
    return folder


@pytest.fixture(scope="session")
def tiny_files(tiny_folder: Path) -> tuple[str, str]:
    """The paths that AllenNLP's classes take."""
    return str(tiny_folder / "options.json"), str(tiny_folder / "weights.hdf5")


@pytest.fixture
def cache_official(
    tiny_files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Put the tiny model where the cache has an official model of a name, with the stem of its files."""

    def cache(model: str, stem: str) -> None:
        folder = tmp_path / "official" / model
        folder.mkdir(parents=True)
        for source, name in zip(tiny_files, ("options.json", "weights.hdf5"), strict=True):
            shutil.copy(source, folder / f"elmo_{stem}_{name}")
        monkeypatch.setenv("ELMO_CACHE", str(tmp_path))

    return cache
