"""Read the rows of a vector folder on demand: by position, slice, index in the input, or id."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

from elmo.errors import ElmoError, InputError, first_line
from elmo.vectors.folder import VECTORS, Counts, list_files
from elmo.vectors.formats import PART_READERS, Layout, PartReader, VectorRow, part_path

_MAX_OPEN_PARTS = 8


def open_folder(folder: str | Path) -> "Vectors":
    """Open a finished vector folder; raise InputError if it is not one. The public name is elmo.vectors.open."""
    folder = Path(folder)
    manifest = VECTORS.read_manifest(folder)
    if manifest is None:
        raise InputError(
            f"{folder} holds no finished vectors; name a folder that elmo embed or encode wrote, and run the "
            "command again if it was stopped."
        )
    if (file_format := manifest["settings"]["file_format"]) not in PART_READERS:
        raise InputError(
            f"{folder} has files in the format {file_format!r}, which is no longer read; embed the text again."
        )
    return Vectors(folder, manifest)


open = open_folder


class Vectors(Sequence[VectorRow]):
    """The rows of a folder, or a slice of them; can be pickled."""

    def __init__(self, folder: Path, manifest: dict[str, Any], positions: range | None = None) -> None:
        """`manifest`: the content of manifest.json; `positions`: the rows of the slice, by default all."""
        self.folder, self.manifest = folder, manifest
        self._starts = list(accumulate((part["num_written"] for part in manifest["parts"]), initial=0))
        self._positions = range(self._starts[-1]) if positions is None else positions
        self._opened: dict[int, PartReader] = {}  # the most recently used part last

    @property
    def counts(self) -> Counts:
        """The numbers of rows, words and vectors in the whole folder."""
        return Counts(**self.manifest["counts"])

    def verify(self) -> None:
        """Read all files and compare their checksums; raise InputError with the damaged files."""
        VECTORS.verify(self.folder, list_files(self.manifest))

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, position: int) -> VectorRow: ...
    @overload
    def __getitem__(self, position: slice) -> "Vectors": ...
    def __getitem__(self, position: int | slice) -> "VectorRow | Vectors":
        if isinstance(position, slice):
            return Vectors(self.folder, self.manifest, self._positions[position])
        return self._read(self._positions[position])

    def by_id(self, row_id: str) -> VectorRow:
        """Return the row with an id; raise InputError unless exactly one row has it. The first call reads all ids."""
        positions = [position for position in self._positions_by_id.get(row_id, []) if position in self._positions]
        if len(positions) != 1:
            raise InputError(f"{len(positions)} rows of {self.folder} have the id {row_id!r}; use their positions.")
        return self._read(positions[0])

    def __repr__(self) -> str:
        return f"Vectors({str(self.folder)!r}, {len(self):,} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Vectors, (self.folder, self.manifest, self._positions)

    def _read(self, position: int) -> VectorRow:
        number = bisect_right(self._starts, position) - 1
        with self._part(number) as reader:
            return reader.read(position - self._starts[number])

    @contextmanager
    def _part(self, number: int) -> Iterator[PartReader]:
        """Yield the reader of a part; raise InputError if the part cannot be read."""
        try:
            if (reader := self._opened.pop(number, None)) is None:
                settings = self.manifest["settings"]
                layout = Layout(settings["unit"], settings["dtype"], tuple(self.manifest["vector_shape"]))
                file_format = settings["file_format"]
                path = part_path(self.folder, self.manifest["parts"][number]["number"], file_format)
                reader = PART_READERS[file_format](path, layout)
            self._opened[number] = reader
            if len(self._opened) > _MAX_OPEN_PARTS:
                del self._opened[next(iter(self._opened))]
            yield reader
        except ElmoError:
            raise
        except Exception as error:  # its type depends on the format and the damaged byte
            raise InputError(
                f"Part {number} of {self.folder} cannot be read ({first_line(error):.120}); elmo info "
                f"{self.folder} lists what is damaged."
            ) from error

    @cached_property
    def _positions_by_id(self) -> dict[str | None, list[int]]:
        positions: dict[str | None, list[int]] = {}
        for number, part in enumerate(self.manifest["parts"]):
            for position in range(part["num_written"]):
                with self._part(number) as reader:
                    row_id = reader.read_fields(position)["id"]
                positions.setdefault(row_id, []).append(self._starts[number] + position)
        return positions
