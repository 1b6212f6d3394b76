"""Files that hold no plain text, by their first bytes: refused before their bytes are read as text."""

from pathlib import Path

from elmo.errors import InputError

_ZIP_KINDS = {
    ".docx": "a Word document", ".xlsx": "an Excel table", ".pptx": "a PowerPoint presentation",
    ".odt": "an OpenDocument text", ".ods": "an OpenDocument table", ".epub": "an EPUB book",
}  # fmt: skip
# First bytes, what such a file is, and how to get text out of it.
_SIGNATURES = (
    (b"%PDF-", "a PDF document", "extract its text first, for example with pdftotext"),
    (b"{\\rtf", "a Rich Text document", "save it as plain text first"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "save it as plain text first"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", "only text can be read"),
    (b"\xff\xd8\xff", "a JPEG image", "only text can be read"),
    (b"GIF8", "a GIF image", "only text can be read"),
    (b"II*\x00", "a TIFF image", "only text can be read"),
    (b"MM\x00*", "a TIFF image", "only text can be read"),
    (b"RIFF", "an audio, video or WebP file", "only text can be read"),
    (b"ID3", "an MP3 file", "only text can be read"),
    (b"OggS", "an Ogg file", "only text can be read"),
    (b"\x7fELF", "a program", "only text can be read"),
    (b"SQLite format 3\x00", "an SQLite database", "export its text first"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "only text can be read"),
)
_LONGEST = max(len(signature) for signature, *_ in _SIGNATURES)


def refuse_binary(path: Path, name: str) -> None:
    """Raise InputError if a file is of a known kind without plain text; `name` is how the user called it."""
    if not path.is_file():
        return  # a pipe cannot be looked into
    with path.open("rb") as file:
        start = file.read(_LONGEST)
    for signature, what, advice in _SIGNATURES:
        if start.startswith(signature):
            if signature == b"PK\x03\x04" and path.suffix.lower() in _ZIP_KINDS:
                what, advice = _ZIP_KINDS[path.suffix.lower()], "save it as plain text or CSV first"
            raise InputError(f"{name} is {what}, not text; {advice}.")
