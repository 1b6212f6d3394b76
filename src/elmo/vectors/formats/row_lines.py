"""The rows of a part without their vectors: one line of JSON each, beside the files of the vectors."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from elmo.files.rows import to_json
from elmo.vectors.formats.part_format import Block, Span, file_at

ENDING = ".rows.jsonl"


def write_rows(file: IO[bytes], block: Block) -> None:
    """Add the lines of a block."""
    for position, index in enumerate(block.indexes):
        row: dict[str, Any] = {"index": index, "id": block.ids[position], "words": block.words[position]}
        if block.spans is not None:
            row["spans"] = block.spans[position]
        file.write(f"{to_json(row)}\n".encode())


class RowLines:
    """The lines of a part, read when the first one is asked for."""

    def __init__(self, stem: Path) -> None:
        self._path = file_at(stem, ENDING)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        with self._path.open("rb") as file:
            return [json.loads(line) for line in file]

    def row(self, position: int) -> tuple[int, str | None, list[str], list[Span] | None]:
        """Give index, id, words and spans of a row."""
        row = self._rows[position]
        spans = [(start, end) for start, end in row["spans"]] if "spans" in row else None
        return row["index"], row["id"], row["words"], spans

    def names(self) -> Iterator[tuple[int, str | None]]:
        """Give the index and the id of each row."""
        return ((row["index"], row["id"]) for row in self._rows)
