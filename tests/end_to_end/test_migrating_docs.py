"""docs/migrating.md: the new code of every section runs on small models."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from elmo import Elmo
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.checkpoint.source import OFFICIAL
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig

from .doc_pages import read_sections

SECTIONS = [section for section in read_sections("migrating.md") if section.blocks()]
# `name = ...  # (2, 3)`: the shape of what was assigned.
SHAPE = re.compile(r"^(\w+) = .*# \((\d[\d, ]*)\)", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose vectors are as long as those of `original`, in the files of the original programs."""
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=2, cell_dim=8, output_dim=512),
        characters=CharacterConfig(filters=((1, 8), (2, 8)), embedding_dim=4, num_highways=1),
    )
    made = tmp_path_factory.mktemp("model")
    write_hdf5(Elmo.from_config(config).checkpoint(), made)
    return made


def lay_out(folder: Path, place: Path) -> None:
    """Put the model wherever the page says there is one, and what else it reads."""
    shutil.copytree(folder, place, dirs_exist_ok=True)
    shutil.copytree(folder, place / "folder with options.json and the .hdf5")
    Elmo.from_pretrained(folder).save_pretrained(place / "zht.model")
    shutil.make_archive(str(place / "209"), "zip", folder)
    for file, path in zip(("options.json", "weights.hdf5"), OFFICIAL["original"], strict=True):
        cached = place / "cache" / "official" / "original" / Path(path).name
        cached.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / file, cached)
    (place / "sentences.txt").write_text("I went\nHello\n", encoding="utf-8")
    saved = {f"elmo.scalar_mix_0.scalar_parameters.{layer}": torch.tensor([float(layer)]) for layer in range(3)}
    torch.save({**saved, "elmo.scalar_mix_0.gamma": torch.tensor([2.0])}, place / "best.th")


def new_code(info: str, code: str) -> str:
    """Python as it is; of a diff, what is added and what stays."""
    assert info in ("python", "diff"), info
    if info == "python":
        return code
    return "".join(line[1:] for line in code.splitlines(keepends=True) if not line.startswith("-"))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_the_new_code_runs_and_gives_the_shapes_it_names(section, folder, tmp_path, monkeypatch):
    lay_out(folder, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {}
    for block in section.blocks():
        code = new_code(*block)
        exec(compile(code, "docs/migrating.md", "exec"), names)
        for name, shape in SHAPE.findall(code):
            assert tuple(names[name].shape) == tuple(map(int, re.findall(r"\d+", shape))), name
    if section.title == "AllenNLP":
        assert names["layer"].mixes[0].weights.tolist() == [0, 1, 2] and names["layer"].mixes[0].gamma == 2
        assert (tmp_path / "vectors.hdf5").is_file()


def test_every_program_of_the_table_has_its_section():
    titles = {section.title for section in SECTIONS}
    assert {"AllenNLP", "TensorFlow Hub", "simple_elmo", "ELMoForManyLangs", "bilm-tf"} <= titles
