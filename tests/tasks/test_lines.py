"""Lines and JSON arrays of examples in every compression; what cannot be read is named with its place."""

import bz2
import gzip
import lzma

import pytest

from elmo import InputError
from elmo.files.rows import Record
from elmo.tasks.readers.reader import Lines
from elmo.tasks.readers.tables import read_json_array


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2"])
def test_lines_are_equal_in_every_compression(tmp_path, ending):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[ending]
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(pack("\ufeffone\u2028still one\r\n\nthree".encode()))
    lines = Lines(path)
    assert lines.peek(2) == ["one\u2028still one", ""]
    assert list(lines) == ["one\u2028still one", "", "three"]
    assert lines.number == 3
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


def test_a_json_array_gives_each_object_with_its_number():
    text = '\n[{"a": 1},\n\n {"a": [2]}\n]\n'
    assert list(read_json_array(text, "x.json")) == [Record(1, {"a": 1}), Record(2, {"a": [2]})]
    assert list(read_json_array(" [ ] ", "x.json")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}', "x.json, line 1: a JSON array of objects was expected."),
        ("[\n5]", "x.json, row 1, holds 5"),
        ('[{"a": 1}\n {"a": 2}]', "x.json, line 2, is not a JSON array ("),
        ('[{"a": 1}]\n{"a": 2}', "x.json, line 2, is not a JSON array ("),
        ("[" * 100_000, "x.json, line 1, is not a JSON array ("),
    ],
)
def test_a_broken_array_names_file_and_line(text, message):
    with pytest.raises(InputError) as caught:
        list(read_json_array(text, "x.json"))
    assert str(caught.value).startswith(message)
