import gzip
import json
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmo.corpus.rows import Columns, cut_rows
from elmo.corpus.settings import TextSettings
from elmo.corpus.text import cut_sentences
from elmo.errors import InputError
from elmo.files.rows import LONGEST_ROW_BYTES
from elmo.files.sources import BrokenRow, find_sources, open_inputs


def read(path, format=None, **columns):
    sources = find_sources([str(path)], path.parent / "stdin", format=format)
    parts = cut_rows(sources, Columns(**columns), 1, keep_broken=True)
    return [row for part in parts for row in part.rows]


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


ODD = [
    "tab\there",
    "nul\0 \0",
    "and/or ../up",
    "",
    "שלום עולם",
    "سلام",
    "one\u2028two\x85three\x0bfour",
    "carriage\rreturn",
]


def test_odd_text_passes(tmp_path):
    path = write(tmp_path, "odd.txt", "\ufeff" + "\r\n".join(ODD))
    assert [row.content for row in read(path)] == ODD


def test_a_line_that_is_no_text_is_broken_alone(tmp_path):
    path = write(tmp_path, "bad.txt", b"good\nna\xefve\ngood again\n")
    first, broken, last = read(path)
    assert (first.content, last.content, last.number) == ("good", "good again", 3)
    assert broken == BrokenRow(
        2, "is not UTF-8 (byte 0xef at position 2); convert the text first, for example with iconv"
    )


def test_a_line_without_end_is_broken_alone(tmp_path):
    first, broken, last = read(write(tmp_path, "a.txt", b"a\n" + b"x" * (2 * LONGEST_ROW_BYTES + 5) + b"\nb\n"))
    assert (first.content, last.content, last.number) == ("a", "b", 3)
    assert broken == BrokenRow(2, "is longer than 16 MiB; split it into sentences first")


def test_every_line_of_a_row_is_a_paragraph_split_into_sentences(tmp_path):
    text = "One line\ngoes on. Here Dr.\nSmith stays.\n\nThe end."
    path = write(tmp_path, "a.jsonl", json.dumps({"text": text}))
    sentences = ["One line", "goes on.", "Here Dr.", "Smith stays.", "The end."]
    assert [row.content for row in read(path, split="sentences")] == sentences
    (part,) = cut_rows(find_sources([str(path)], tmp_path), Columns(), 1)
    assert [sentence for sentence in cut_sentences(part, TextSettings()) if sentence] == sentences


def test_json_lines_of_texts_and_words(tmp_path):
    rows = [{"text": "I went", "id": 7}, {"tokens": ["I", "went"], "id": "x"}, {"sentence": None}, {"words": []}]
    path = write(tmp_path, "a.jsonl", "\n\n".join(map(json.dumps, rows)))
    found = read(path)
    assert [(row.content, row.id) for row in found] == [
        ("I went", "7"),
        (["I", "went"], "x"),
        ("", None),
        ([], None),
    ]
    assert [row.number for row in found] == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("line", "columns", "reason"),
    [
        ("{", {}, "is not JSON (Expecting property name"),
        ("[1]", {}, "holds [1]; a JSON object was expected"),
        (
            '{"body": "x"}',
            {},
            "has no column 'text' or 'sentence' or 'tokens' or 'words', only 'body'",
        ),
        ('{"text": "x"}', {"content": "body"}, "has no column 'body', only 'text'"),
        ('{"text": 5}', {}, "has 5 in 'text'"),
        ('{"text": ["a", 5]}', {}, "has ['a', 5] in 'text'"),
        ('{"text": "x", "id": [1]}', {}, "has [1] in 'id'"),
        ('{"text": "\\ud800"}', {}, "contains a lone surrogate (\\ud800), which UTF-8 cannot encode"),
        ('{"text": "x"}', {"spans": "at"}, "has no column 'at', only 'text'"),
        ('{"text": "x", "at": [[1]]}', {"spans": "at"}, "has [[1]] in 'at'"),
        ('{"text": "x"}', {"id": "key"}, "has no column 'key', only 'text'"),
    ],
)
def test_json_that_is_broken(tmp_path, line, columns, reason):
    (row,) = read(write(tmp_path, "a.jsonl", line), **columns)
    assert isinstance(row, BrokenRow) and row.number == 1 and row.reason.startswith(reason)


def test_separated_values(tmp_path):
    content = b'\xef\xbb\xbfid,text\r\na,"one, ""two""\nthree"\r\n\r\nb,na\xefve\nc,1,2\nd,\xd7\xa9\n'
    one, bad, long, last = read(write(tmp_path, "a.csv", content))
    assert (one.id, one.content, one.number) == ("a", 'one, "two"\nthree', 2)
    assert bad.number == 5 and bad.reason.startswith("is not UTF-8 (byte 0xef)")
    assert long == BrokenRow(6, "has 3 fields, but the header has 2")
    assert (last.id, last.content) == ("d", "ש")
    assert [row.content for row in read(write(tmp_path, "a.tsv", "body\tx\nI went\t1\n"), content="body")] == ["I went"]
    with pytest.raises(InputError, match="a.csv has no column 'body', only 'id', 'text'"):
        read(tmp_path / "a.csv", content="body")


def test_parquet_of_texts_and_words(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "tokens": [["I", "went"], None], "at": [[[0, 1]], None]}), path)
    first, second = read(path, spans="at")
    assert (first.content, first.id, first.spans) == (["I", "went"], "1", [(0, 1)])
    assert (second.content, second.id, second.spans, second.number) == ("", "2", [], 2)
    pq.write_table(pa.table({"text": [1.5]}), path)
    (row,) = read(path)
    assert row == BrokenRow(1, "has 1.5 in 'text'; text or a list of words was expected")
    bad = pa.array([b"\xff"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad}), path)
    (row,) = read(path)
    assert isinstance(row, BrokenRow) and row.reason.startswith("is not UTF-8")


CONLLU = """# sent_id = first
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_

1 broken

1\tFin\tfin\tNOUN\t_\t_\t0\troot\t_\t_"""


def test_conllu(tmp_path):
    first, broken, last = read(write(tmp_path, "a.conllu", CONLLU))
    assert (first.content, first.id, first.number) == (["Vamos", "nos"], "first", 1)
    assert broken == BrokenRow(8, "begins a sentence whose line 8 has 1 tab-separated columns, not 10")
    assert (last.content, last.id) == (["Fin"], None)


def test_packed_files_and_patterns(tmp_path):
    write(tmp_path, "a.txt.gz", gzip.compress(b"one\n"))
    write(tmp_path, "b.txt.xz", lzma.compress(b"two\n"))
    write(tmp_path, "c", b"three\n")
    write(tmp_path, "d.log", b'{"text": "four"}')
    assert [row.content for row in read(tmp_path / "[a-c]*")] == ["one", "two", "three"]
    assert [row.content for row in read(tmp_path / "d.log", format="jsonl")] == ["four"]
    cut = write(tmp_path, "cut.txt.gz", gzip.compress(b"one\n" * 10_000)[:-20])
    with pytest.raises(InputError, match=r"cut.txt.gz is truncated or damaged after line \d"):
        read(cut)


@pytest.mark.needs("/proc")
def test_a_pipe_is_refused(tmp_path):
    import os

    reading, writing = os.pipe()
    with pytest.raises(InputError, match="is a pipe or a device"):
        open_inputs(find_sources([f"/dev/fd/{reading}"], tmp_path / "stdin"))
    os.close(reading)
    os.close(writing)


def test_parts_are_cut_by_the_text_alone(tmp_path):
    write(tmp_path, "a.txt", "".join(f"line {number}\n" for number in range(50)))
    write(tmp_path, "b.txt", "x\n" * 50)
    parts = list(cut_rows(find_sources([str(tmp_path / "*.txt")], tmp_path), Columns(), 150))
    assert [part.number for part in parts] == list(range(len(parts))) and len(parts) == 4
    assert [part.first_index for part in parts] == [0, *np.cumsum([len(part.rows) for part in parts[:-1]])]
    assert sum(len(part.rows) for part in parts) == 100
    names = [parts[2].source_of(parts[2].first_index + number).path.name for number in range(len(parts[2].rows))]
    assert names == sorted(names) and set(names) == {"a.txt", "b.txt"}  # parts do not end with files
    assert sum(parts[2].num_rows.values()) == len(parts[2].rows)
    assert sum(part.input_bytes for part in parts) == sum(path.stat().st_size for path in tmp_path.glob("*.txt"))


def test_quotes_of_tab_separated_values_are_text(tmp_path):
    rows = ['"Hello, he said', "plain", '"quoted"', 'she said "no"', '5" disk', '"']
    path = write(tmp_path, "a.tsv", "id\ttext\n" + "".join(f"{n}\t{row}\n" for n, row in enumerate(rows)))
    assert [row.content for row in read(path)] == rows


def test_a_quote_that_is_not_closed_swallows_no_rows_silently(tmp_path):
    path = write(tmp_path, "open.csv", 'id,text\n1,one\n2,"two\n3,three\n4,four\n')
    first, broken = read(path)
    assert first.content == "one"
    assert broken == BrokenRow(
        3,
        "is not a row of a table (unexpected end of data): a quote that opens a cell must close it, and a quote "
        "inside such a cell is written twice",
    )
    path = write(tmp_path, "later.csv", 'id,text\n1,"one\n2,"two"\n3,three\n')
    broken, last = read(path)
    assert isinstance(broken, BrokenRow) and broken.number == 2 and last.content == "three"


def test_a_quoted_cell_may_hold_lines(tmp_path):
    path = write(tmp_path, "a.csv", 'id,text\n1,"one\nand ""two"", three"\n2,four\n')
    assert [row.content for row in read(path)] == ['one\nand "two", three', "four"]
