"""Input files of every format and compression, and errors that name the line."""

import gzip
import json
import lzma
import sys
from pathlib import Path

import pytest

from elmo.corpus.settings import PrepareSettings
from elmo.corpus.text import cut_parts, text_of
from elmo.errors import ConfigError, InputError
from elmo.files.sources import find_sources

TEXT = "First line.\nSecond — line\u2028still second.\r\n\n \nA new\tdocument \u0000 שלום.\n"
LINES = ["First line.", "Second — line\u2028still second.", "A new\tdocument \u0000 שלום."]


def pack(content: bytes, ending: str) -> bytes:
    if ending == "gz":
        return gzip.compress(content)
    if ending == "xz":
        return lzma.compress(content)
    if ending == "zst":
        zstandard = pytest.importorskip("zstandard")
        half = len(content) // 2  # two frames, as parallel packers write them
        return b"".join(zstandard.ZstdCompressor().compress(part) for part in (content[:half], content[half:]))
    return content


def write(folder: Path, kind: str, ending: str, texts: list[str]) -> Path:
    path = folder / ".".join(filter(None, ("file", kind, ending)))
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        plain = folder / "plain.parquet"
        parquet.write_table(pyarrow.table({"id": range(len(texts)), "text": texts}), plain, row_group_size=2)
        content = plain.read_bytes()
    elif kind == "jsonl":
        content = "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts).encode()
    else:
        content = "\n\n".join(texts).encode()
    path.write_bytes(pack(content, ending))
    return path


def read(*paths: Path | str, shard_bytes: int = 1 << 20, **settings) -> list[str]:
    chosen = PrepareSettings(shard_bytes=shard_bytes, **settings)
    parts = cut_parts(find_sources([str(path) for path in paths], Path("-")), chosen, shard_bytes)
    return [text_of(row) for part in parts for row in part.rows]


@pytest.mark.parametrize("ending", ["", "gz", "xz", "zst"])
@pytest.mark.parametrize("kind", ["txt", "jsonl", "parquet"])
def test_every_format_gives_the_same_documents(tmp_path, kind, ending):
    texts = ["One line.\nAnother — naïve", "שלום 你好", "last\u2028line \u0000"]
    if kind == "parquet" and ending:
        pytest.skip("Parquet compresses within the file")
    path = write(tmp_path, kind, ending, texts)
    assert read(path, split="none") == texts
    assert read(path, split="none", shard_bytes=1) == texts


def test_only_line_feeds_end_a_line(tmp_path):
    path = tmp_path / "odd.txt"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert [line for line in read(path) if line.strip()] == LINES
    assert read(path, split="none") == ["\n".join(LINES[:2]), LINES[2]]


def test_lines_end_alike_in_records(tmp_path):
    assert read(write(tmp_path, "jsonl", "", ["a\r\nb\rc"])) == ["a\nb\rc"]


def test_documents_are_never_cut(tmp_path):
    documents = [f"line {number}\nof {number}" for number in range(20)]
    path = write(tmp_path, "txt", "", documents)
    for shard_bytes in (1, 20, 35, 1000):
        assert read(path, split="none", shard_bytes=shard_bytes) == documents


def test_a_document_ends_with_its_file(tmp_path):
    (tmp_path / "1.txt").write_text("one")
    (tmp_path / "2.txt").write_text("two")
    assert read(tmp_path / "*.txt", split="none") == ["one", "two"]


def test_patterns_are_sorted_and_files_keep_the_order_given(tmp_path):
    for name in ("b.txt", "a.txt", "c.jsonl"):
        (tmp_path / name).write_text("")
    names = [source.path.name for source in find_sources([f"{tmp_path}/c*", f"{tmp_path}/*.txt"], Path("-"))]
    assert names == ["c.jsonl", "a.txt", "b.txt"]
    (tmp_path / "x[1].txt").write_text("")
    assert len(find_sources([f"{tmp_path}/x[1].txt"], Path("-"))) == 1


def test_nulls_and_blank_lines_are_no_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": null}\n\n{"text": "x"}\n')
    assert read(path) == ["", "x"]
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"body": [None, "x"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", field="body") == ["", "x"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"text": \n', r"a.jsonl, line 2, is not JSON \(Expecting value.*\)\.$"),
        (b'{"text": "a"}\n["b"]\n', r'line 2, holds \["b"\]; a JSON object was expected\.$'),
        (
            b'{"id": 1, "body": "a"}\n',
            "line 1, has no column 'text', only 'id', 'body'",
        ),
        (b'{"text": 7}\n', "line 1, has 7 in 'text'"),
        (
            b'{"text": "a\\ud800"}\n',
            r"line 1, contains a lone surrogate \(\\ud800\), which UTF-8 cannot",
        ),
        (b'{"text": "a"}\n{"text": "\xff"}\n', r"line 2, is not UTF-8 \(byte 0xff at position 10\)"),
        (b"[" * 100_000, r"line 1, is not JSON"),
    ],
)
@pytest.mark.parametrize("shard_bytes", [1, 1 << 20])
def test_a_record_that_cannot_be_read_is_named(tmp_path, content, message, shard_bytes):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(path, shard_bytes=shard_bytes)


@pytest.mark.parametrize("ending", ["gz", "xz", "zst"])
@pytest.mark.parametrize("damage", ["cut", "foreign"])
def test_a_damaged_archive_is_named(tmp_path, ending, damage):
    path = write(tmp_path, "txt", ending, [f"a line of text {number**3}" for number in range(500)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 + len(content) // 3] if damage == "cut" else b"plain text\n" * 9)
    with pytest.raises(
        InputError, match=rf"file.txt.{ending} is truncated or damaged after line [\d,]+ \(.+\); download"
    ):
        read(path)


def test_parquet_faults_are_named(tmp_path):
    path = write(tmp_path, "parquet", "", ["a", "b", "c"])
    with pytest.raises(InputError, match="has no column 'body', only 'id', 'text'"):
        read(path, field="body")
    with pytest.raises(InputError, match=r"row 1, has 0 in 'id'; text or a list of words"):
        read(path, field="id")
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    with pytest.raises(InputError, match=r"file.parquet is truncated or damaged"):
        read(path)
    path.write_bytes(content[:4] + b"\xff" * 200 + content[204:])
    with pytest.raises(InputError, match=r"file.parquet is truncated or damaged after row"):
        read(path)


def test_parquet_text_that_is_not_utf8_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = pyarrow.StringArray.from_buffers(
        2, pyarrow.array([0, 1, 2], pyarrow.int32()).buffers()[1], pyarrow.py_buffer(b"a\xff")
    )
    parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet, row 2, is not UTF-8"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("kind", "ending", "module"), [("parquet", "", "pyarrow.parquet"), ("txt", "zst", "zstandard")]
)
def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch, kind, ending, module):
    path = write(tmp_path, kind, ending, ["a"])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"needs {module.partition('.')[0]}: .*\.\[data\]"):
        read(path)


def test_files_that_cannot_be_meant_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    for name, message in {
        "none.txt": "No such file: '.*none.txt'",
        "*.jsonl": r"No file matches '.*\*.jsonl'",
        ".": r"is a folder; name the files in it",
    }.items():
        with pytest.raises(InputError, match=message):
            read(tmp_path / name)
    with pytest.raises(InputError, match=r"is named twice"):
        read(tmp_path / "a.txt", tmp_path / "*.txt")
    with pytest.raises(InputError, match=r"Nothing to read"):
        read()


def test_endless_text_is_refused(tmp_path, monkeypatch):
    from elmo.corpus import rows

    monkeypatch.setattr(rows, "LONGEST_ROW_BYTES", 1 << 20)
    (tmp_path / "a.txt").write_text("short\n" + "x" * (1 << 20) + "x")
    with pytest.raises(InputError, match=r"a.txt, line 2, is longer than 1 MiB"):
        read(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("a\n\n" + "some words\n" * (1 << 17))
    with pytest.raises(InputError, match=r"b.txt, line 3, is longer than 1 MiB"):
        read(tmp_path / "b.txt", split="none")
