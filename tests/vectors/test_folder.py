"""A job replaces and removes only its own files in an output folder."""

import json
import logging

import pytest

from elmo.errors import InputError
from elmo.vectors import VectorSettings, embed_files, folder
from tests.vectors.conftest import PART_BYTES, SENTENCES, read_all

SETTINGS = VectorSettings(part_bytes=PART_BYTES, file_format="parquet")


class StopError(Exception):
    pass


@pytest.fixture
def spark_folder(tmp_path):
    """A folder of parquet parts that another program wrote."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "spark"
    path.mkdir()
    for number in range(3):
        parquet.write_table(pyarrow.table({"text": SENTENCES[:5]}), path / f"part-{number:05d}.parquet")
    (path / "part-00003-7f3a-c000.snappy.parquet").write_bytes(b"data")
    return path


@pytest.mark.parametrize("force", [False, True])
def test_an_input_in_the_output_folder_is_refused(tiny_model, spark_folder, force):
    before = read_all(spark_folder)
    with pytest.raises(InputError, match="part-00000.parquet is inside the output folder "):
        embed_files(tiny_model, [spark_folder / "part-00000.parquet"], spark_folder, SETTINGS, force=force)
    assert read_all(spark_folder) == before


@pytest.mark.parametrize("force", [False, True])
def test_parts_of_another_program_are_not_ours(tiny_model, text_file, spark_folder, force):
    before = read_all(spark_folder)
    with pytest.raises(InputError, match=r"spark holds other files \(part-00000.parquet, part-00001.parquet, "):
        embed_files(tiny_model, [text_file], spark_folder, SETTINGS, force=force)
    assert read_all(spark_folder) == before


@pytest.mark.parametrize("name", ["manifest.json", "rejects.jsonl", "part-00000.rows.jsonl"])
def test_a_file_that_only_has_one_of_our_names_is_kept(tiny_model, text_file, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text('{"mine": true}')
    with pytest.raises(InputError, match="holds other files|is not a folder of vectors"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True)
    assert (tmp_path / "out" / name).read_text() == '{"mine": true}'


def test_a_file_added_to_a_finished_folder_survives_force(tiny_model, text_file, tmp_path):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    (tmp_path / "out" / "part-99999.parquet").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(part-99999.parquet\)"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True)
    assert (tmp_path / "out" / "part-99999.parquet").read_text() == "mine"


def test_an_index_is_kept_with_its_vectors_and_removed_with_them(tiny_model, text_file, tmp_path):
    index = tmp_path / "out" / "index"
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    index.mkdir()
    (index / "words.json").touch()
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert (index / "words.json").exists()
    with text_file.open("a") as file:
        file.write("one more sentence\n")
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True)
    assert not index.exists()


def test_a_manifest_that_names_files_outside_is_damaged(tiny_model, text_file, tmp_path):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["parts"][0]["files"][0]["name"] = "../text.txt"
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="manifest.json is damaged"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True).verify()
    assert text_file.exists()


def test_a_replacement_stopped_while_it_removes_can_be_run_again(tiny_model, text_file, tmp_path, monkeypatch):
    embed_files(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    for stop_at in range(1, 6):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True)
        count = iter(range(100))
        unlink = folder.Path.unlink

        def stop(path, *, stop_at=stop_at, count=count, unlink=unlink, **more):
            if path.parent == tmp_path / "out" and next(count) == stop_at:
                raise StopError
            return unlink(path, **more)

        monkeypatch.setattr(folder.Path, "unlink", stop)
        with pytest.raises(StopError):
            embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True)
        monkeypatch.undo()
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
        assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_finished_folder_that_lost_a_part_is_made_whole_again(tiny_model, text_file, tmp_path, caplog, damage):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    before = read_all(tmp_path / "out")
    part = tmp_path / "out" / "part-00001.parquet"
    if damage == "missing":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, logger="elmo"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert "part-00001.parquet" in caplog.text and "written again" in caplog.text
    assert read_all(tmp_path / "out") == before


def test_leftovers_of_killed_processes_are_removed(tiny_model, text_file, tmp_path):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    before = read_all(tmp_path / "out")
    (tmp_path / "out" / ".manifest.json.saving-123").write_text("{")
    (tmp_path / "out" / ".rejects.jsonl.saving-124").write_text("{")
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert read_all(tmp_path / "out") == before
