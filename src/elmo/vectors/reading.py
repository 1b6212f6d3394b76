"""A vector folder -> its rows, read on demand: by position, slice, index in the input, or id."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from elmo.errors import ElmoError, InputError, first_line
from elmo.vectors.folder import Counts, Manifest, read_manifest, verify
from elmo.vectors.formats import Array, PartReader, Span, StoredRow, open_format, part_stem

if TYPE_CHECKING:
    from elmo.vectors.torch_dataset import VectorDataset

_PARTS_KEPT_OPEN = 8


@dataclass(frozen=True)
class VectorRow:
    """One sentence of the input with its vectors.

    `vectors`: of words as Elmo.embed returns them, (T, 2D) or (L+1, T, 2D); of sentences as Elmo.encode, (2D,) or
    (L+1, 2D); of spans as Elmo.embed_spans, (N, 2D) or (N, L+1, 2D). Stored int8 is returned as float32, other
    types as they were stored; where the format allows, the array is a view of the file.
    """

    index: int  # of its row in the input, from 0
    id: str | None
    words: list[str]
    spans: list[Span] | None
    vectors: Array


def open_folder(folder: str | Path) -> "Vectors":
    """Open a finished vector folder; InputError if it is not one. The public name is elmo.vectors.open."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError(
            f"{folder} holds no finished vectors; name a folder that elmo embed or encode wrote, and run the "
            "command again if it was stopped."
        )
    return Vectors(folder, manifest)


open = open_folder


class Vectors(Sequence[VectorRow]):
    """The rows of a folder, or a slice of them; safe to pickle."""

    def __init__(self, folder: Path, manifest: Manifest, positions: range | None = None) -> None:
        self.folder, self.manifest = folder, manifest
        self._ends = list(accumulate(part["num_written"] for part in manifest.parts))
        self._positions = range(self._ends[-1] if self._ends else 0) if positions is None else positions
        self._opened: OrderedDict[int, PartReader] = OrderedDict()

    @property
    def counts(self) -> Counts:
        """How many rows, words and vectors the whole folder has."""
        return self.manifest.counts

    def verify(self) -> None:
        """Read all files and compare their checksums; InputError names what is damaged."""
        verify(self.folder, self.manifest)

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, place: int) -> VectorRow: ...
    @overload
    def __getitem__(self, place: slice) -> "Vectors": ...
    def __getitem__(self, place: int | slice) -> "VectorRow | Vectors":
        if isinstance(place, slice):
            return Vectors(self.folder, self.manifest, self._positions[place])
        return self._read(self._positions[place])

    def by_index(self, index: int) -> VectorRow:
        """Return the row of the input with that number, from 0; InputError if there is none or it was rejected."""
        number = bisect_right([part["first_index"] for part in self.manifest.parts], index) - 1
        if number >= 0 and self.manifest.parts[number]["num_written"]:
            start = self._ends[number] - self.manifest.parts[number]["num_written"]
            names = enumerate(self._read_names(number), start)
            position = next((position for position, (other, _) in names if other == index), None)
            if position is not None and position in self._positions:
                return self._read(position)
        raise InputError(f"{self.folder} has no row with the index {index!r} here; see its rejects.jsonl.")

    def by_id(self, given_id: str) -> VectorRow:
        """Return the row with that id; InputError if several have it. The first call reads the ids of all rows."""
        if given_id in self._ids[1]:
            raise InputError(f"Several rows of {self.folder} have the id {given_id!r}; use their index.")
        position = self._ids[0].get(given_id)
        if position is None or position not in self._positions:
            raise InputError(f"{self.folder} has no row with the id {given_id!r} here.")
        return self._read(position)

    def to_torch(self) -> "VectorDataset":
        """Return the rows as a torch Dataset of tensors."""
        from elmo.vectors.torch_dataset import VectorDataset

        return VectorDataset(self)

    def close(self) -> None:
        """Close all files; they are opened again when needed."""
        for reader in self._opened.values():
            reader.close()
        self._opened.clear()

    def __repr__(self) -> str:
        return f"Vectors({str(self.folder)!r}, {len(self):,} rows)"

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "manifest": self.manifest, "positions": self._positions}

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        Vectors.__init__(self, **arguments)

    def _read(self, position: int) -> VectorRow:
        number = bisect_right(self._ends, position)
        start = self._ends[number - 1] if number else 0
        with self._reraise_as_damaged(number):
            return _to_row(self._open_part(number).read(position - start), self.manifest)

    def _read_names(self, number: int) -> list[tuple[int, str | None]]:
        with self._reraise_as_damaged(number):
            return list(self._open_part(number).read_names())

    @contextmanager
    def _reraise_as_damaged(self, number: int) -> Iterator[None]:
        try:
            yield
        except ElmoError:
            raise
        except Exception as error:  # which one depends on the format and on the byte that is wrong
            raise InputError(
                f"Part {number} of {self.folder} cannot be read ({first_line(error):.120}); elmo info "
                f"{self.folder} lists what is damaged."
            ) from error

    def _open_part(self, number: int) -> PartReader:
        if number not in self._opened:
            form = open_format(self.manifest.values["settings"]["file_format"])
            stem = self.folder / part_stem(self.manifest.parts[number]["number"])
            self._opened[number] = form.read(stem, self.manifest.layout)
            if len(self._opened) > _PARTS_KEPT_OPEN:
                self._opened.popitem(last=False)[1].close()
        self._opened.move_to_end(number)
        return self._opened[number]

    @cached_property
    def _ids(self) -> tuple[dict[str, int], set[str]]:
        first: dict[str, int] = {}
        repeated: set[str] = set()
        for position, (_, given_id) in enumerate(self._names()):
            if given_id is not None:
                if given_id in first:
                    repeated.add(given_id)
                first.setdefault(given_id, position)
        return first, repeated

    def _names(self) -> list[tuple[int, str | None]]:
        filled = [number for number, part in enumerate(self.manifest.parts) if part["num_written"]]
        return [name for number in filled for name in self._read_names(number)]


def _to_row(stored: StoredRow, manifest: Manifest) -> VectorRow:
    vectors = dequantize(stored.vectors, stored.scales)
    unit = manifest.layout.unit
    if unit == "sentences":
        vectors = vectors[0]
    elif unit == "words" and vectors.ndim == 3:
        vectors = vectors.transpose(1, 0, 2)  # all layers, as Elmo.embed returns them
    return VectorRow(stored.index, stored.id, stored.words, stored.spans, vectors)


def dequantize(stored: Array, scales: Array | None) -> Array:
    """Return the vectors: floats as they were stored, int8 as float32."""
    return stored if scales is None else cast(Array, stored.astype(np.float32) * scales[..., None])
