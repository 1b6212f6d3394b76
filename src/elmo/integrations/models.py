"""What several adapters share: opening a model by name, packing it into bytes, and sentences as padded tensors."""

import io
import tempfile
import weakref
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.inference.layers import Layers
from elmo.model import Elmo
from elmo.text.batch import BEGIN_ROW, END_ROW, FIRST_WORD_ROW, CharBatch, Indexer

ModelSource: TypeAlias = str | Path | Elmo | None
_open_models: "weakref.WeakValueDictionary[tuple[object, ...], Elmo]" = weakref.WeakValueDictionary()


def missing_package(package: str, extra: str) -> ImportError:
    """Return the error of an adapter whose library is not installed."""
    return ImportError(
        f"elmo.integrations.{extra} needs the package {package}; "
        f"install it with: pip install 'modern-elmo[{extra}]'"
    )


def open_shared(source: ModelSource, *, precision: str = "float32", device: str = "cpu") -> Elmo:
    """Return a model for reading only: as long as somebody uses it, those who ask for the same one share it.

    A model that is to be changed must be opened with Elmo.from_pretrained instead.
    """
    if isinstance(source, Elmo):
        return source
    key = (None if source is None else str(source), _identify(source), precision, device)
    model = _open_models.get(key)
    if model is None:
        model = _open_models[key] = Elmo.from_pretrained(source, precision=precision, device=device)
    return model


def _identify(source: str | Path | None) -> tuple[int, int] | None:
    """Tell a folder or file from one that has taken its place since."""
    if source is None or not Path(source).expanduser().exists():
        return None
    state = Path(source).expanduser().stat()
    return state.st_ino, state.st_mtime_ns


def vector_length(model: Elmo, layers: Layers) -> int:
    """Return the length of a word's vector; InputError for layers="all", which is more than one vector."""
    shape = model.word_shape(layers)
    if len(shape) != 1:
        raise InputError("layers is 'all', but one vector per word is needed; choose 'concat' to join the layers.")
    return shape[0]


def save_model(model: Elmo, folder: Path) -> None:
    """Write a model folder with the weights as they were stored, so that nothing is rounded and nothing grows."""
    storage: Any = model.checkpoint().storage
    model.save_pretrained(folder, storage=storage)


def model_to_bytes(model: Elmo) -> bytes:
    """Return the model's folder as a zip archive."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as temporary, zipfile.ZipFile(buffer, "w") as archive:
        folder = Path(temporary) / "model"
        save_model(model, folder)
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return buffer.getvalue()


def model_from_bytes(content: bytes, *, precision: str = "float32", device: str = "cpu") -> Elmo:
    """Open what model_to_bytes returned."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.zip"
        path.write_bytes(content)
        return Elmo.from_pretrained(path, precision=precision, device=device)


@dataclass(frozen=True)
class Boundaries:
    """The ids of the begin and the end of a sentence: of characters (2, C), of words (2,), or both."""

    characters: Tensor | None
    words: Tensor | None

    @classmethod
    def of(cls, indexer: Indexer) -> "Boundaries":
        """Return those of what turns words into ids."""
        alphabet, vocabulary = indexer.alphabet, indexer.vocabulary
        return cls(
            None if alphabet is None else torch.from_numpy(alphabet.boundaries()),
            None if vocabulary is None else torch.from_numpy(vocabulary.boundaries()),
        )


def pad_sentences(indexer: Indexer, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` (B, T), words only, zero where padded.

    `input_ids` are characters (B, T, C), or words (B, T) for a model that reads words only; a model that reads
    both has its words in `word_input_ids`.
    """
    batch = indexer.batch(sentences)
    mask = batch.mask[:, 2:]
    places = batch.word_index[:, 1:-1]
    words = None if batch.word_ids is None else batch.word_ids[places] * mask
    tensors = {"attention_mask": mask.long()}
    if batch.char_ids is None:
        assert words is not None
        return {"input_ids": words, **tensors}
    tensors = {"input_ids": batch.char_ids[places] * mask[..., None], **tensors}
    return tensors if words is None else {**tensors, "word_input_ids": words}


def unpad_sentences(
    boundaries: Boundaries, input_ids: Tensor, attention_mask: Tensor, word_input_ids: Tensor | None = None
) -> CharBatch:
    """Return the batch a network reads, each distinct word once; the inverse of pad_sentences."""
    mask = attention_mask.bool()
    num_sentences, num_steps = mask.shape
    lengths = mask.sum(dim=1)
    if not torch.equal(mask, torch.arange(num_steps, device=mask.device) < lengths[:, None]):
        raise InputError("attention_mask has a 0 before a 1; pad sentences on the right, as the tokenizer does.")
    given = [ids[mask] for ids in (input_ids, word_input_ids) if ids is not None]
    rows = torch.cat([ids if ids.ndim == 2 else ids[:, None] for ids in given], dim=1)
    places = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
    if len(rows):
        rows, places = torch.unique(rows, dim=0, return_inverse=True)
    word_index = torch.full((num_sentences, num_steps + 2), BEGIN_ROW, device=mask.device)
    word_index[:, 1:-1][mask] = places + FIRST_WORD_ROW
    word_index.scatter_(1, lengths[:, None] + 1, END_ROW)
    char_ids, word_ids = None, None
    if boundaries.characters is not None:
        num_characters = boundaries.characters.shape[1]
        char_ids = torch.cat([boundaries.characters.to(rows.device), rows[:, :num_characters]])
    if boundaries.words is not None:
        word_ids = torch.cat([boundaries.words.to(rows.device), rows[:, -1]])
    return CharBatch(char_ids, word_ids, word_index, lengths.cpu() + 2, tuple(range(num_sentences)))
