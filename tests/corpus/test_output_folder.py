"""Preparing replaces and removes only files of a corpus."""

import pytest

from elmo.corpus.prepare import prepare
from elmo.errors import InputError


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The cat sat. The dog sat.\n" * 5)
    return path


@pytest.mark.parametrize("name", ["vocabulary.txt", "manifest.json", "tokens"])
def test_a_file_that_only_has_one_of_our_names_is_kept(text, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("{}")
    with pytest.raises(InputError, match="holds other files|is not a prepared corpus"):
        prepare([text], tmp_path / "out", force=True, num_workers=1)
    assert (tmp_path / "out" / name).read_text() == "{}"


def test_an_input_in_the_output_folder_is_refused(text, tmp_path):
    prepare([text], tmp_path / "out", num_workers=1)
    with pytest.raises(InputError, match="vocabulary.txt is inside the output folder"):
        prepare([tmp_path / "out" / "vocabulary.txt"], tmp_path / "out", num_workers=1, force=True)
    vocabulary = tmp_path / "out" / "vocabulary.txt"
    with pytest.raises(InputError, match="vocabulary.txt is inside the output folder"):
        prepare([text], tmp_path / "out", vocabulary=vocabulary, num_workers=1, force=True)
    assert (tmp_path / "out" / "vocabulary.txt").exists()


def test_leftovers_of_killed_processes_are_removed(text, tmp_path):
    prepare([text], tmp_path / "out", num_workers=1)
    (tmp_path / "out" / ".manifest.json.saving-123").write_text("{")
    prepare([text], tmp_path / "out", num_workers=1)
    assert not (tmp_path / "out" / ".manifest.json.saving-123").exists()


def test_bad_input_leaves_no_folder(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError):
        prepare([tmp_path / "bad.txt"], tmp_path / "out", num_workers=1)
    assert not (tmp_path / "out").exists()
