"""manifest.json of an index: the model and layers it was made with, the files read so far, its segments."""

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.analysis.corpus_text import ReadingSettings
from elmo.analysis.layer_choice import LayerKey
from elmo.config import parse
from elmo.errors import CheckpointError, ConfigError, ElmoError, first_line
from elmo.files.durable import replace_file

MANIFEST = "manifest.json"
# An index of the layer "meaning" is of the second version.
FORMAT, VERSION, MEANING_VERSION = "modern-elmo-index", 1, 2
SEGMENT_NAME = re.compile(r"segment-\d{4,}")
_KINDS = {
    "modern-elmo-corpus": "a corpus prepared for training",
    "modern-elmo-vectors": "a folder of vectors",
}


@dataclass(frozen=True)
class SourceRecord:
    """A file that was read, as far as it was read."""

    name: str
    sha256: str
    num_sentences: int = 0
    num_words: int = 0
    is_complete: bool = False


@dataclass(frozen=True)
class Manifest:
    """What an index is. Only segments listed here count."""

    model: str | None  # where the model was; None: the default one
    model_hash: str
    num_layers: int
    dim: int
    layers: tuple[LayerKey, ...]
    reading: ReadingSettings
    sources: tuple[SourceRecord, ...] = ()
    segments: tuple[str, ...] = ()
    context_hash: str | None = None  # of the model's context layer, if "meaning" is among the layers

    @property
    def num_occurrences(self) -> int:
        """How many words were indexed."""
        return sum(source.num_words for source in self.sources)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object."""
        content = dataclasses.asdict(self)
        if self.context_hash is None:
            del content["context_hash"]
        version = VERSION if self.context_hash is None else MEANING_VERSION
        return {"format": FORMAT, "version": version, **content}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest; at any moment the old or the new one is there."""
    replace_file(folder / MANIFEST, json.dumps(manifest.to_dict(), ensure_ascii=False, indent=1).encode())


def is_index(path: str | Path) -> bool:
    """Tell whether this is the folder of an index."""
    return (Path(path) / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """Read what write_manifest wrote; CheckpointError if it is not that."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is no index of occurrences: it has no {MANIFEST}; make one with "
            f"elmo neighbors --build {folder} --corpus FILE."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise CheckpointError(
                f"{folder} is no index of occurrences but {_KINDS.get(content.get('format'), 'something else')}; "
                "make an index of text with elmo neighbors --build INDEX --corpus FILE."
            )
        if content.pop("format") != FORMAT or content.pop("version") not in (VERSION, MEANING_VERSION):
            raise CheckpointError(
                f"{path} is not of version {VERSION} or {MEANING_VERSION}, which this program reads; build it "
                "again."
            )
        content["reading"] = parse(ReadingSettings, content["reading"], "reading")
        content["sources"] = tuple(parse(SourceRecord, source, "a source") for source in content["sources"])
        content["layers"], content["segments"] = tuple(content["layers"]), tuple(content["segments"])
        manifest = Manifest(**content)
        _check(manifest)
        return manifest
    except ConfigError as error:
        raise CheckpointError(f"{path} is damaged ({error}); build the index again.") from error
    except ElmoError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({first_line(error)}); build the index again.") from error


def _check(manifest: Manifest) -> None:
    """Raise ValueError for values that no index has."""
    is_model = isinstance(manifest.model, str | None) and isinstance(manifest.model_hash, str)
    is_size = all(type(size) is int and size > 0 for size in (manifest.num_layers, manifest.dim))
    if not is_model or not is_size:
        raise ValueError("the model is not described")
    known = (*range(1, manifest.num_layers), "average", "meaning")
    if wrong := [layer for layer in manifest.layers if isinstance(layer, bool) or layer not in known]:
        raise ValueError(f"{wrong[0]!r:.40} is no layer of the model")
    if isinstance(manifest.context_hash, str) != ("meaning" in manifest.layers):
        raise ValueError("the context layer that meaning depends on is not described")
    if not all(isinstance(name, str) and SEGMENT_NAME.fullmatch(name) for name in manifest.segments):
        raise ValueError(f"{manifest.segments!r:.80} are no names of segments")
    if any(min(source.num_sentences, source.num_words) < 0 for source in manifest.sources):
        raise ValueError("a source has fewer than no words")
