"""What `elmo info` tells of a folder of vectors: what it holds, and whether it is whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.cli.text_width import show
from elmo.errors import InputError
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.jobs.manifest import Manifest


def describe_vector_folder(folder: Path, *, checksums: bool) -> dict[str, Any]:
    """Give the facts about a folder as plain JSON values; InputError if it is damaged or not finished."""
    from elmo.jobs.manifest import read_manifest
    from elmo.jobs.verification import verify

    manifest = read_manifest(folder)
    if manifest is None:
        num_parts = len(list((folder / ".job").glob("part-*.json")))
        raise InputError(
            f"{folder} is not finished: {num_parts:,} parts are there; run the command that began it again."
        )
    num_bytes = sum(file.num_bytes for file in manifest.files())
    with progress_bar(unit="files", num_bytes=num_bytes, prints=False) as advance:
        verify(folder, manifest, lambda size: advance(size, 0), checksums=checksums)
    return {**_describe(manifest), "num_bytes": num_bytes, "verified": "checksums" if checksums else "sizes"}


def _describe(manifest: "Manifest") -> dict[str, Any]:
    values = manifest.values
    return {
        "format": values["format"],
        "version": values["version"],
        "made_with": values["made_with"],
        "model": values["model"],
        "settings": values["settings"],
        "vector_shape": values["vector_shape"],
        "counts": values["counts"],
        "num_parts": len(manifest.parts),
        "inputs": values["inputs"],
    }


def vector_folder_lines(found: dict[str, Any]) -> list[str]:
    """Give the same for people, one fact a line."""
    settings, counts, model = found["settings"], found["counts"], found["model"]
    shape = " × ".join(f"{size:,}" for size in found["vector_shape"])
    layers, num_parts = settings["layers"], found["num_parts"]
    parts = f"{num_parts:,} part{'s' if num_parts != 1 else ''}"
    kinds = {"words": "every word", "sentences": "every sentence", "spans": "chosen words"}
    rows = {
        "format": f"vectors in {settings['file_format']} files, {parts}",
        "vectors": f"{counts['num_vectors']:,}, of {kinds[settings['unit']]}: {shape} {settings['dtype']}",
        "layers": ", ".join(map(str, layers)) if isinstance(layers, list) else str(layers),
        "rows": f"{counts['num_written']:,} of {counts['num_rows']:,} in the input",
        "rejected": f"{counts['num_rejected']:,}" + (", see rejects.jsonl" if counts["num_rejected"] else ""),
        "words": f"{counts['num_words']:,}",
        "size": f"{found['num_bytes']:,} bytes",
        "model": f"fingerprint {model['content_hash']}, {model['precision']} on {model['device']}",
        "inputs": f"{len(found['inputs']):,}",
        **{f"  {file['name']}": f"{file['num_rows']:,} rows, {file['format']}" for file in found["inputs"][:20]},
        "made with": ", ".join(f"{name} {number}" for name, number in found["made_with"].items()),
        "verified": {
            "checksums": "all files have their size and checksum",
            "sizes": "all files have their size; checksums were not compared",
        }[found["verified"]],
    }
    width = max(map(len, rows)) + 2
    return [show(f"{name:<{width}}{value}") for name, value in rows.items()]
