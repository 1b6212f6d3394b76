"""Files of text, packed or not -> their lines as bytes, or the rows of a table as text, one after another.

Only a line feed ends a line. What a line holds is not looked at here; see part_words.py.
"""

import gzip
import io
import lzma
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import IO, Any, BinaryIO, cast

from elmo.corpus.input_files import Compression, Source
from elmo.errors import InputError

# What is tokenized as a whole must fit into memory several times over.
LONGEST_DOCUMENT_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 17  # little, since it may unpack to a thousand times as much
_ROWS_AT_ONCE = 256


class _ZstdError(Exception):
    """What zstandard raises, whether or not it is installed."""


_DAMAGE: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, lzma.LZMAError, _ZstdError)

Lines = tuple[Iterator[bytes], Callable[[], int]]
Rows = tuple[Iterator[str], Callable[[], int]]


@contextmanager
def open_lines(source: Source) -> Iterator[Lines]:
    """Give the lines, line feeds included, and what says how many bytes of the file were read so far."""
    with open_stream(source) as (stream, bytes_read):
        yield _read_lines(source, stream), bytes_read


@contextmanager
def open_stream(source: Source) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """Give the unpacked bytes, and what says how many bytes of the file were read so far."""
    with ExitStack() as stack:
        packed = stack.enter_context(source.path.open("rb"))
        stream = stack.enter_context(_unpack(packed, source.compression))
        yield stream, packed.tell


def _read_lines(source: Source, stream: BinaryIO) -> Iterator[bytes]:
    number = 0
    with damage_told(source, lambda: f"after line {number:,}"):
        for line in iter(partial(stream.readline, LONGEST_DOCUMENT_BYTES + 1), b""):
            number += 1
            if len(line) > LONGEST_DOCUMENT_BYTES:
                raise too_long(source.name, "line", number)
            yield line


def too_long(name: str, unit: str, number: int) -> InputError:
    """Give the error about text without an end; `unit` is a line or a row."""
    return InputError(
        f"{name}, {unit} {number:,}: the text that begins here is longer than {LONGEST_DOCUMENT_BYTES >> 20} MiB; "
        "cut it into lines or documents first."
    )


@contextmanager
def open_rows(source: Source, field: str) -> Iterator[Rows]:
    """Give the texts of a parquet file, and what says how many bytes of it their share is so far."""
    with open_table(source) as table:
        schema = table.schema_arrow
        if schema.get_field_index(field) < 0:
            raise InputError(
                f"{source.name} has no column {field!r}, only {', '.join(schema.names)}; choose one with --column."
            )
        if not is_text(schema.field(field).type):
            raise InputError(f"{source.name}, column {field!r}, holds {schema.field(field).type}, not text.")
        num_done = 0

        def read() -> Iterator[str]:
            nonlocal num_done
            with damage_told(source, lambda: f"after row {num_done:,}"):
                for batch in table.iter_batches(_ROWS_AT_ONCE, columns=[field], use_threads=False):
                    for value in batch.column(0):
                        num_done += 1
                        yield _row_text(source, num_done, value)

        num_rows, num_bytes = max(1, table.metadata.num_rows), source.path.stat().st_size
        yield read(), lambda: num_bytes * num_done // num_rows


@contextmanager
def open_table(source: Source) -> Iterator[Any]:
    """Give a parquet file opened by pyarrow, packed or not."""
    import_extra("pyarrow", source.name)
    parquet = import_module("pyarrow.parquet")
    with ExitStack() as stack:
        opened: IO[bytes] = stack.enter_context(source.path.open("rb"))
        with damage_told(source, lambda: ""):
            if source.compression is not None:
                # The end of a parquet file is read first, so a packed one is unpacked as a whole.
                packed, opened = opened, stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(_unpack(cast(BinaryIO, packed), source.compression), opened)
            table = stack.enter_context(parquet.ParquetFile(opened))
        yield table


def is_text(kind: Any) -> bool:
    """Whether a type of pyarrow holds text."""
    types = import_module("pyarrow.types")
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or kind == "string_view")


def _row_text(source: Source, number: int, value: Any) -> str:
    try:
        text = value.as_py() or ""  # a null is an empty document
    except UnicodeDecodeError as error:
        raise InputError(f"{source.name}, row {number:,}, is not UTF-8 ({error.reason}).") from error
    if len(text) > LONGEST_DOCUMENT_BYTES:
        raise too_long(source.name, "row", number)
    return cast(str, text)


@contextmanager
def damage_told(source: Source, where: Callable[[], str]) -> Iterator[None]:
    """Raise InputError for what a cut-off or damaged file makes go wrong; `where` says how far it was read."""
    try:
        yield
    except (*_DAMAGE, *_arrow_errors()) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a fault of the disk, not of what the file holds
        place = f" {where()}" if where() else ""
        reason = str(error).rstrip(".")
        raise InputError(
            f"{source.name} is cut off or damaged{place} ({reason}); fetch or pack it again."
        ) from error


def _arrow_errors() -> tuple[type[Exception], ...]:
    pyarrow = sys.modules.get("pyarrow")  # only who imported it can have met its errors
    return () if pyarrow is None else (pyarrow.ArrowException,)


def import_extra(module: str, name: str) -> Any:
    """Import what only some files need; `name` is the file."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"{name} needs {module}; install it with: pip install 'modern-elmo[data]'") from error


def _unpack(packed: BinaryIO, compression: Compression | None) -> BinaryIO:
    if compression is None:
        return packed
    raw: Any
    if compression == "gz":
        raw = gzip.GzipFile(fileobj=packed)
    elif compression == "xz":
        raw = lzma.LZMAFile(packed)  # noqa: SIM115 - closed by the reader around it
    else:
        raw = _ZstdReader(packed)
    return cast(BinaryIO, io.BufferedReader(raw, _BUFFER_BYTES))


class _ZstdReader(io.RawIOBase):
    """Frames one after another; unlike zstandard's own reader, a cut-off one is an error, not an end."""

    def __init__(self, packed: BinaryIO) -> None:
        zstandard = import_extra("zstandard", packed.name)
        self._packed, self._error = packed, zstandard.ZstdError
        # Archives made with --long have windows of up to 2 GiB.
        self._new_frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj
        self._frame: Any = None
        self._unpacked = self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unpacked:
            block = self._rest or self._packed.read(_ZSTD_BYTES)
            self._rest = b""
            if not block:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            self._frame = self._frame or self._new_frame()
            try:
                self._unpacked = self._frame.decompress(block)
            except self._error as error:
                raise _ZstdError(str(error)) from error
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._unpacked))
        buffer[:size] = self._unpacked[:size]
        self._unpacked = self._unpacked[size:]
        return size
