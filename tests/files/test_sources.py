"""Names of files that cannot be read, lines that are too long, and files that change."""

import hashlib
import io

import pytest

from elmo import InputError
from elmo.files.sources import describe_file, expand_pattern, find_sources, open_inputs, read_lines


def test_a_line_over_the_limit_is_broken_alone():
    found = list(read_lines(io.BytesIO(b"ab\n" + b"x" * 9 + b"\nc"), longest=4))
    assert [line if isinstance(line, str) else line.number for line in found] == ["ab", 2, "c"]


def test_unreadable_names_are_errors_with_a_fix(tmp_path):
    with pytest.raises(InputError, match="No such file: '.*none'"):
        describe_file(str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"is a folder; name the files in it"):
        describe_file(str(tmp_path))
    with pytest.raises(InputError, match=r"No file matches '.*x\*'"):
        expand_pattern(str(tmp_path / "x*"))


def test_an_input_that_changes_is_noticed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    (whole,) = open_inputs(find_sources([str(path)], tmp_path / "stdin"))
    assert whole.to_dict()["sha256"] == hashlib.sha256(b"one").hexdigest()
    assert not whole.is_changed()
    path.write_text("longer")
    assert whole.is_changed()
