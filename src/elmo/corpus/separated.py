"""Lines of a table of separated values -> rows of cells, read alike by every command."""

import csv
from collections.abc import Iterable, Iterator

QUOTING_ADVICE = "a quote that opens a cell must close it, and a quote inside such a cell is written twice"


class SeparatedRows:
    """Rows one by one; `first_line` is the line that the row given last begins at, from 1.

    Tab-separated cells are taken as they are, quotes included. Others may be quoted, and then a quote that is not
    closed raises csv.Error where csv itself would take the following rows for the rest of the cell.
    """

    def __init__(self, lines: Iterable[str], delimiter: str, *, quoted: bool, longest_cell: int) -> None:
        csv.field_size_limit(longest_cell)
        if quoted:
            self._reader = csv.reader(lines, delimiter=delimiter, strict=True)
        else:
            self._reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        self.first_line = 0

    @property
    def last_line(self) -> int:
        """The line that the row given last ends at."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self.first_line = self._reader.line_num + 1
        return next(self._reader)
