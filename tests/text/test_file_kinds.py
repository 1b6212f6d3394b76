"""Files without plain text are refused by what they are."""

import pytest

from elmo import InputError
from elmo.text.file_kinds import refuse_binary

KINDS = [
    ("a.pdf", b"%PDF-1.7\nplain words", "is a PDF document, not text; extract its text first, for example with"),
    ("a.txt", b"%PDF-1.7\nplain words", "is a PDF document, not text"),
    ("a.docx", b"PK\x03\x04rest", "is a Word document, not text; save it as plain text or CSV first."),
    ("a.xlsx", b"PK\x03\x04rest", "is an Excel table, not text"),
    ("a.zip", b"PK\x03\x04rest", "is a zip archive, not text; unpack it first."),
    ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Office document, not text"),
    ("a.png", b"\x89PNG\r\n\x1a\n", "is a PNG image, not text; only text can be read."),
    ("a.jpg", b"\xff\xd8\xff\xe0", "is a JPEG image, not text"),
]


@pytest.mark.parametrize(("name", "content", "message"), KINDS)
def test_binary_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        refuse_binary(tmp_path / name, name)
    assert str(caught.value).startswith(f"{name} {message}")


@pytest.mark.parametrize("content", [b"", b"plain text", "naïve".encode(), b"\x1f\x8b gzip", b"PAR1 parquet"])
def test_text_and_what_other_readers_read_pass(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    refuse_binary(tmp_path / "a.txt", "a.txt")
