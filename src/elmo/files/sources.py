"""Find input files by name or pattern, and read files and standard input, compressed or not, as lines of UTF-8.

Only a line feed ends a line; U+2028 and similar characters are text.
"""

import bz2
import glob
import gzip
import io
import lzma
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import sha256_of

InputFormat = Literal["txt", "jsonl", "parquet", "csv", "tsv", "conllu"]
Compression = Literal["gz", "xz", "bz2", "zst"]
STDIN = "-"
BYTE_ORDER_MARK = "\ufeff"
CONVERT_ADVICE = "convert the text first, for example with iconv"
_LIBRARY_ERRORS = ("ArrowException", "ZstdError")  # raised for damaged data
_BUFFER_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 17  # small, because it may decompress to a thousand times its size


@dataclass(frozen=True)
class Place:
    """The file and the number of a line or row, counted from 1."""

    file: str
    line: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.line}"


@dataclass(frozen=True)
class BrokenRow:
    """A line or a row that cannot be read; `reason` completes a sentence that begins with its place."""

    number: int
    reason: str

    def to_error(self, name: str, unit: str = "line") -> InputError:
        """Return the error that names the file, the line and the reason."""
        return InputError(f"{Place(name, self.number, unit)}, {self.reason}.")


@dataclass(frozen=True)
class Source:
    """An input file: its name as the user wrote it, its path, format and compression."""

    name: str
    path: Path
    format: InputFormat = "txt"
    compression: Compression | None = None

    @property
    def label(self) -> str:
        """The name for messages."""
        return "standard input" if self.name == STDIN else self.name

    @property
    def unit(self) -> str:
        """The name of a row in messages: "row" for Parquet files, otherwise "line"."""
        return "row" if self.format == "parquet" else "line"


@dataclass(frozen=True)
class InputFile:
    """A source with its size, modification time and checksum at the start of the work."""

    source: Source
    num_bytes: int
    modified_nanoseconds: int
    sha256: str

    def is_changed(self) -> bool:
        """Return whether the file has changed since the start of the work."""
        stat = self.source.path.stat()
        return (stat.st_size, stat.st_mtime_ns) != (self.num_bytes, self.modified_nanoseconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the file's entry in a manifest."""
        format = ".".join(filter(None, (self.source.format, self.source.compression)))
        return {"name": self.source.name, "format": format, "num_bytes": self.num_bytes, "sha256": self.sha256}


# --- names -> files


def find_sources(names: Sequence[str], stdin_copy: Path, *, format: InputFormat | None = None) -> list[Source]:
    """Return the files for names and patterns in the order given; the files of a pattern are sorted.

    `format` applies to all files; by default it depends on the extension. Standard input (-) is read from
    `stdin_copy`. Raises InputError if a file is missing, cannot be read, or is named twice.
    """
    if not names:
        raise InputError("Nothing to read; name text files, or - for standard input.")
    paths = [path for name in names for path in expand_pattern(name)]
    sources: dict[Path, Source] = {}
    for name in paths:
        source = Source(STDIN, stdin_copy, format or "txt") if name == STDIN else describe_file(name, format)
        if (same := sources.setdefault(source.path.resolve(), source)) is not source:
            raise InputError(f"{source.name} is named twice ({same.name} is the same file); name it once.")
    return list(sources.values())


def expand_pattern(name: str) -> Iterable[str]:
    """Return the sorted files that match a pattern such as `texts/*.txt`, or the name itself if it is no pattern."""
    if name == STDIN or Path(name).exists() or not glob.has_magic(name):
        return [name]
    # Path.glob would change the spelling of names, and does not accept absolute patterns.
    paths = sorted(path for path in glob.glob(name, recursive=True) if Path(path).is_file())  # noqa: PTH207
    if not paths:
        raise InputError(f"No file matches {name!r}.")
    return paths


def describe_file(name: str, format: InputFormat | None = None) -> Source:
    """Return a file with its format: `format` if given, else the format of its extension, else plain text."""
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name} is a folder; name the files in it, for example '{path / '*.txt'}'.")
    if not path.exists():
        raise InputError(f"No such file: {name!r}.")
    extension, compression = split_extensions(path)
    if format is None:
        format = cast(InputFormat, extension) if extension in get_args(InputFormat) else "txt"
    return Source(name, path, format, compression)


def split_extensions(path: Path) -> tuple[str, Compression | None]:
    """Return the extension of a file name in lower case, without a compression suffix, and the compression."""
    extension = path.suffix.lower()[1:]
    if extension in get_args(Compression):
        return Path(path.stem).suffix.lower()[1:], cast(Compression, extension)
    return extension, None


def check_outside(paths: Iterable[Path], output: Path) -> None:
    """Raise InputError if an input file is inside the output folder, where it could be replaced or removed."""
    folder = output.resolve()
    for path in paths:
        if folder in path.resolve().parents:
            raise InputError(
                f"{path} is inside the output folder {output}; choose another folder, so that no input is overwritten."
            )


def open_stdin() -> BinaryIO:
    """Return standard input, or raise InputError if it is closed."""
    if sys.stdin is None:
        raise InputError("Standard input is closed; name a file, or leave it open.")
    return sys.stdin.buffer


def open_inputs(sources: Iterable[Source]) -> list[InputFile]:
    """Copy standard input to the path of its source, and return the description of each file."""
    inputs = []
    for source in sources:
        if source.name == STDIN:
            with source.path.open("wb") as copy:
                shutil.copyfileobj(open_stdin(), copy)
        if not source.path.is_file():
            raise InputError(f"{source.name} is a pipe or a device; pass its content on standard input (-).")
        stat = source.path.stat()
        inputs.append(InputFile(source, stat.st_size, stat.st_mtime_ns, sha256_of(source.path)))
    return inputs


# --- files -> bytes


@contextmanager
def open_stream(source: Source) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """Yield the uncompressed stream, and a function that returns how many bytes of the file have been read.

    Standard input is read directly unless it was copied to a file before.
    """
    if source.name == STDIN and not source.path.is_file():
        yield open_stdin(), lambda: 0
        return
    with source.path.open("rb") as packed, _decompress(packed, source.compression) as stream:
        yield stream, packed.tell if source.path.is_file() else lambda: 0  # a pipe cannot tell


def _decompress(packed: BinaryIO, compression: Compression | None) -> BinaryIO:
    if compression is None:
        return packed
    readers: dict[Compression, Callable[[BinaryIO], Any]] = {
        "gz": gzip.open, "xz": lzma.open, "bz2": bz2.open, "zst": _ZstdReader,
    }  # fmt: skip
    return cast(BinaryIO, io.BufferedReader(readers[compression](packed), _BUFFER_BYTES))


class _ZstdReader(io.RawIOBase):
    """A reader of consecutive zstd frames; unlike zstandard's own reader, it raises EOFError for a truncated frame."""

    def __init__(self, packed: BinaryIO) -> None:
        self._blocks = _unpack_zstd(packed)
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unpacked:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._unpacked = memoryview(block)
        size = min(len(buffer), len(self._unpacked))
        buffer[:size] = self._unpacked[:size]
        self._unpacked = self._unpacked[size:]
        return size


def _unpack_zstd(packed: BinaryIO) -> Iterator[bytes]:
    # Archives made with --long have windows of up to 2 GiB.
    decompressor = require("zstandard", "data", packed.name).ZstdDecompressor(max_window_size=1 << 31)
    frame = None
    while block := packed.read(_ZSTD_BYTES):
        while block:
            frame = frame or decompressor.decompressobj()
            yield frame.decompress(block)
            block = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError("the last frame has no end")


@contextmanager
def report_damage(source: Source, where: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Raise InputError for the errors of a truncated or damaged file; `where` returns how far it was read."""
    try:
        yield
    except Exception as error:
        if not _is_damage(error):
            raise
        place = f" {where()}" if where() else ""
        reason = str(error).rstrip(".")
        raise InputError(
            f"{source.label} is truncated or damaged{place} ({reason}); download or compress it again."
        ) from error


def _is_damage(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno is None  # otherwise it is a fault of the disk
    names = {error_type.__name__ for error_type in type(error).__mro__}  # no import of optional libraries
    return isinstance(error, EOFError | zlib.error | lzma.LZMAError) or not names.isdisjoint(_LIBRARY_ERRORS)


# --- bytes -> lines of text


def read_lines(stream: BinaryIO, *, longest: int | None = None) -> Iterator[str | BrokenRow]:
    """Yield each line without its line end; a line that is not UTF-8, or longer than `longest`, is a BrokenRow."""
    limit = -1 if longest is None else longest + 1
    for number, content in enumerate(iter(partial(stream.readline, limit), b""), start=1):
        if longest is not None and len(content) > longest and not content.endswith(b"\n"):
            while content and not content.endswith(b"\n"):
                content = stream.readline(longest)
            yield too_long(number, longest)
            continue
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{content[error.start]:02x} at position {error.start:,}"
            yield BrokenRow(number, f"is not UTF-8 ({byte}); {CONVERT_ADVICE}")
            continue
        if number == 1:
            text = text.removeprefix(BYTE_ORDER_MARK)
        yield text.removesuffix("\n").removesuffix("\r")


def too_long(number: int, longest: int) -> BrokenRow:
    """Return the broken row for a text of more than `longest` bytes."""
    return BrokenRow(number, f"is longer than {longest >> 20} MiB; split it into sentences first")
