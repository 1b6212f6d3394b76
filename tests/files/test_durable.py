"""Files and folders are written completely or not at all, without leftover temporary files."""

import json
import os

import pytest

from elmo.files import durable
from elmo.files.durable import (
    REPLACEMENT,
    atomic_write,
    current_folder,
    is_leftover,
    is_vacant,
    output_file,
    remove_stale,
    replace_file,
    replacing_folder,
)


def interrupt(*arguments, **options):
    raise KeyboardInterrupt


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path):
    replace_file(tmp_path / "a", b"old")
    with atomic_write(tmp_path / "a") as temporary:
        temporary.write_bytes(b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
        assert is_leftover(temporary.parent.name)
    assert (tmp_path / "a").read_bytes() == b"new" and names(tmp_path) == ["a"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_keeps_the_previous_content(tmp_path, failure):
    replace_file(tmp_path / "a", b"old")
    with pytest.raises(failure), atomic_write(tmp_path / "a") as temporary:
        temporary.write_bytes(b"half")
        raise failure
    with pytest.raises(failure), replacing_folder(tmp_path / "new", ["one"]) as temporary:
        (temporary / "one").write_bytes(b"half")
        raise failure
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_a_folder_is_replaced_only_once_the_new_one_is_on_the_disk(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "old").touch()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(durable, "_sync_all", interrupt)
        with atomic_write(folder, replaces_folder=True) as temporary:
            temporary.mkdir()
    assert names(folder) == ["old"] and names(tmp_path) == ["site"]
    with atomic_write(folder, replaces_folder=True) as temporary:
        temporary.mkdir()
        (temporary / "new").touch()
        assert names(folder) == ["old"]
    assert names(folder) == ["new"] and names(tmp_path) == ["site"]
    with pytest.raises(OSError), atomic_write(folder) as temporary:
        temporary.mkdir()
    assert names(folder) == ["new"]


def test_an_interruption_before_the_first_byte_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "_locked", interrupt)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "a"):
        pass
    assert names(tmp_path) == []


def test_a_new_folder_appears_at_once_with_all_its_parents(tmp_path):
    with replacing_folder(tmp_path / "deep" / "new", ["one"]) as temporary:
        (temporary / "one").write_bytes(b"1")
        (temporary / "more").mkdir()
        assert not (tmp_path / "deep" / "new").exists()
    assert names(tmp_path / "deep") == ["new"] and names(tmp_path / "deep" / "new") == ["more", "one"]


def test_files_of_an_existing_folder_are_replaced_or_removed_and_others_stay(tmp_path):
    for name in ("one", "two", "mine"):
        (tmp_path / name).write_text("old")
    with replacing_folder(tmp_path, ["one", "two"]) as temporary:
        (temporary / "one").write_text("new")
        assert (tmp_path / "one").read_text() == "old"
    assert names(tmp_path) == ["mine", "one"]
    assert (tmp_path / "one").read_text() == "new"


def test_stale_files_are_removed_and_nothing_else(tmp_path):
    for name in (".a.json.saving-12", ".saving", "a.saving-12", ".a.saving-x", ".a.old-12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    remove_stale(tmp_path)
    remove_stale(tmp_path / "missing")
    assert names(tmp_path) == [".a.old-12", ".a.saving-x", ".saving", "a.saving-12"]


def test_a_folder_is_vacant_until_something_of_value_is_in_it(tmp_path):
    folder = tmp_path / "run"
    assert is_vacant(folder)
    (folder / "training").mkdir(parents=True)
    (folder / "training" / ".run.json.saving-7").touch()
    (folder / ".lock").touch()
    assert is_vacant(folder, "training") and not is_vacant(folder)
    (folder / "training" / "run.json").touch()
    assert not is_vacant(folder, "training")
    assert not is_vacant(folder / "training" / "run.json")


def test_temporary_files_of_killed_writers_are_removed_and_those_of_running_ones_kept(tmp_path):
    left = [".a.saving-0123456789ab", ".a.saving-12"]
    for name in left:
        (tmp_path / name).mkdir()
    (tmp_path / ".ab.saving-12").mkdir()  # of another output
    with output_file(tmp_path / "a") as first:
        first.write_text("first")
        with output_file(tmp_path / "a") as second:
            second.write_text("second")
        assert first.exists()
    assert names(tmp_path) == [".ab.saving-12", "a"] and (tmp_path / "a").read_text() == "first"


def test_the_process_id_of_a_killed_writer_does_not_matter(tmp_path):
    (tmp_path / f".a.saving-{os.getpid()}").mkdir()  # as in a container, where every process has the same one
    with replacing_folder(tmp_path / "a", ["one"]) as new:
        (new / "one").touch()
    assert names(tmp_path) == ["a"]


def test_a_replacement_that_was_not_finished_is_read_and_then_finished(tmp_path):
    for name in ("one", "two", "mine"):
        (tmp_path / name).write_text("old")
    replacement = tmp_path / REPLACEMENT
    replacement.mkdir()
    (replacement / "one").write_text("new")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.touch()
    (replacement / ".removed").write_text(json.dumps(["two", f"../{outside.name}"]))
    assert current_folder(tmp_path) == replacement
    with pytest.raises(ValueError), replacing_folder(tmp_path, ["one"]):
        raise ValueError
    assert (current_folder(tmp_path) / "one").read_text() == "new"
    with replacing_folder(tmp_path, ["three"]) as new:
        (new / "three").write_text("newer")
    assert current_folder(tmp_path) == tmp_path and names(tmp_path) == ["mine", "one", "three"]
    assert (tmp_path / "one").read_text() == "new" and outside.exists()
