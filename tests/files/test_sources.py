"""Lines of files in every compression; unreadable files are named with the position."""

import bz2
import gzip
import hashlib
import io
import lzma

import pytest

from elmo import InputError
from elmo.files.sources import InputFile, Lines, expand_pattern, find_sources, read_lines


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2"])
def test_lines_are_equal_in_every_compression(tmp_path, ending):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[ending]
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(pack("\ufeffone\u2028still one\r\n\nthree".encode()))
    lines = Lines(path)
    assert lines.peek(2) == ["one\u2028still one", ""]
    assert list(lines) == ["one\u2028still one", "", "three"]
    assert (lines.number, lines.suffix) == (3, ".txt")
    assert str(lines.place()) == f"{path}, line 3"
    assert str(lines.fail("no good.")) == f"{path}, line 3: no good."


def test_a_wrong_encoding_names_file_line_byte_and_remedy(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\nna\xefve\n")
    lines = Lines(path)
    assert next(lines) == "fine"
    with pytest.raises(InputError) as caught:
        next(lines)
    assert str(caught.value) == (
        f"{path}, line 2, is not UTF-8 (byte 0xef at position 2); convert the text first, for example with iconv."
    )


def test_a_damaged_archive_names_the_position(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\n" * 10_000)[:-20])
    with pytest.raises(InputError, match=r"a.txt.gz is truncated or damaged after line [\d,]+ \(.+\)"):
        list(Lines(path))


def test_texts_in_memory_are_lines_too():
    lines = Lines("-", texts=["one\ntwo", "three"])
    assert (list(lines), lines.name) == (["one", "two", "three"], "--text")


def test_a_line_over_the_limit_is_broken_alone():
    found = list(read_lines(io.BytesIO(b"ab\n" + b"x" * 9 + b"\nc"), longest=4))
    assert [line if isinstance(line, str) else line.number for line in found] == ["ab", 2, "c"]


def test_unreadable_names_are_errors_with_a_fix(tmp_path):
    with pytest.raises(InputError, match="No such file: '.*none'"):
        next(Lines(tmp_path / "none"))
    with pytest.raises(InputError, match=r"is a folder; name the files in it"):
        next(Lines(tmp_path))
    with pytest.raises(InputError, match=r"No file matches '.*x\*'"):
        expand_pattern(str(tmp_path / "x*"))


def test_an_input_that_changes_is_noticed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    (source,) = find_sources([str(path)], tmp_path / "stdin")
    whole = InputFile.of(source)
    assert whole.to_dict()["sha256"] == hashlib.sha256(b"one").hexdigest()
    assert not whole.is_changed()
    path.write_text("longer")
    assert whole.is_changed()
