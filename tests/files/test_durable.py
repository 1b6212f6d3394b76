"""Files and folders are whole or not there, and nothing else stays beside them."""

import os
import subprocess
import sys

import pytest

from elmo.files.durable import (
    is_leftover,
    is_vacant,
    name_aside,
    output_file,
    output_folder,
    remove_leftovers,
    replace_file,
    writing_aside,
    writing_files,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path):
    replace_file(tmp_path / "a", b"old")
    with writing_aside(tmp_path / "a") as aside:
        aside.write_bytes(b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
        assert is_leftover(aside.name)
    assert (tmp_path / "a").read_bytes() == b"new" and names(tmp_path) == ["a"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, failure):
    replace_file(tmp_path / "a", b"old")
    with pytest.raises(failure), writing_aside(tmp_path / "a") as aside:
        aside.write_bytes(b"half")
        raise failure
    with pytest.raises(failure), writing_files(tmp_path / "new", ["one"]) as aside:
        (aside / "one").write_bytes(b"half")
        raise failure
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    name_aside(tmp_path / "a").mkdir()
    replace_file(tmp_path / "a", b"new")
    assert names(tmp_path) == ["a"]


def test_a_new_folder_appears_at_once_with_all_its_parents(tmp_path):
    with writing_files(tmp_path / "deep" / "new", ["one"]) as aside:
        (aside / "one").write_bytes(b"1")
        (aside / "more").mkdir()
        assert not (tmp_path / "deep" / "new").exists()
    assert names(tmp_path / "deep") == ["new"] and names(tmp_path / "deep" / "new") == ["more", "one"]


def test_files_of_an_existing_folder_are_replaced_or_removed_and_others_stay(tmp_path):
    for name in ("one", "two", "mine"):
        (tmp_path / name).write_text("old")
    with writing_files(tmp_path, ["one", "two"]) as aside:
        (aside / "one").write_text("new")
        assert (tmp_path / "one").read_text() == "old"
    assert names(tmp_path) == ["mine", "one"]
    assert (tmp_path / "one").read_text() == "new"


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    for name in (".a.json.saving-12", ".saving-3", ".saving", "a.saving-12", ".a.saving-x", ".a.old-12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path / "missing")
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


def test_what_killed_writers_left_beside_an_output_is_removed(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    host = name_aside(tmp_path / "a").name.rpartition("-")[2]
    left = tmp_path / f".a.saving-{int(dead.stdout)}-{host}"
    left.write_text("half")
    others = [tmp_path / f".a.saving-{os.getppid()}-{host}", tmp_path / f".a.saving-{int(dead.stdout)}-00000000"]
    for path in others:
        path.touch()  # of a running process, and of another machine
    with output_file(tmp_path / "a") as aside:
        aside.write_text("whole")
    assert names(tmp_path) == sorted(["a", *(path.name for path in others)])


def test_a_folder_that_a_killed_writer_had_moved_is_restored(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    host = name_aside(tmp_path / "a").name.rpartition("-")[2]
    (tmp_path / f".a.old-{int(dead.stdout)}-{host}").mkdir()
    with pytest.raises(ValueError), output_folder(tmp_path / "a"):
        raise ValueError
    assert names(tmp_path) == ["a"]
