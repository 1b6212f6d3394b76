"""Records of CSV, JSON lines and Parquet, and the positions of errors."""

import csv

import pytest

from elmo.files.rows import Record, open_parquet, read_cells, read_json_lines, to_json
from elmo.files.sources import BrokenRow, find_sources


def test_json_lines_are_numbered_through_blank_ones():
    records = list(read_json_lines(['{"a": 1}', "", "  ", '{"a": 2}']))
    assert records == [Record(1, {"a": 1}), Record(4, {"a": 2})]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON (Expecting property name"),
        ("[1]", "holds [1]; a JSON object was expected"),
        ("[" * 100_000, "is not JSON ("),
    ],
)
def test_a_broken_line_keeps_its_number_and_the_next_is_read(line, reason):
    broken, good = read_json_lines([line, '{"a": 1}'])
    assert isinstance(broken, BrokenRow) and broken.number == 1 and broken.reason.startswith(reason)
    assert good == Record(2, {"a": 1})


def test_cells_are_numbered_by_the_first_line_of_their_row():
    lines = ["a,b\n", '1,"two\n', 'lines"\n', "\n", "3,4\n"]
    assert list(read_cells(lines, ",", quoted=True)) == [
        (1, ["a", "b"]),
        (2, ["1", "two\nlines"]),
        (5, ["3", "4"]),
    ]
    assert list(read_cells(['"a\tb"\n'], "\t", quoted=False)) == [(1, ['"a', 'b"'])]


def test_an_open_quote_is_a_fault_of_its_row():
    (broken,) = read_cells(['1,"two\n', "3,four\n"], ",", quoted=True)
    assert isinstance(broken, BrokenRow) and broken.number == 1
    assert broken.reason.startswith("is not a row of a table (unexpected end of data): a quote that opens a cell")


def test_the_limit_of_csv_cells_is_the_same_after_every_use():
    csv.field_size_limit(10)
    list(read_cells(["a" * 100 + "\n"], ",", quoted=True))
    assert csv.field_size_limit() == 16 << 20


def test_parquet_rows_have_the_requested_columns(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"id": [1, 2], "text": ["one", None], "words": [["a"], []]}), path)
    (source,) = find_sources([str(path)], tmp_path)
    with open_parquet(source, lambda names: sorted(names)[:2]) as (records, bytes_read):
        assert list(records) == [Record(1, {"id": 1, "text": "one"}), Record(2, {"id": 2, "text": None})]
        assert bytes_read() == path.stat().st_size


def test_json_stays_on_one_line_however_lines_are_split():
    text = to_json({"a": "x\x85y\u2028z\u2029 naïve\n"})
    assert len(text.splitlines()) == 1 and "naïve" in text
