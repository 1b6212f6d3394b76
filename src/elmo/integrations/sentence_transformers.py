"""sentence-transformers: ElmoModule, the first module of a SentenceTransformer; a Pooling module follows it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from elmo.errors import InputError
from elmo.integrations import ModelSource, missing_package, save_model
from elmo.layer import ElmoLayer
from elmo.model import Elmo
from elmo.nn.batch import pad_sentences, unpad_sentences
from elmo.text.batch import BEGIN_ROW, END_ROW

try:
    from sentence_transformers.base.modules import Module
except ImportError as error:
    raise missing_package("sentence-transformers", "sentence_transformers") from error

SETTINGS_FILE, MIX_FILE = "elmo_module.json", "mix.safetensors"


class ElmoModule(Module):
    """Maps texts to token embeddings: a learned mix of the model's layers, which starts as their average.

    The biLM is frozen unless `tune_bilm` is set; then training also changes the weights of a `model` that is an Elmo.
    """

    save_in_root = False

    def __init__(self, model: ModelSource = None, *, dropout: float = 0.0, tune_bilm: bool = False) -> None:
        super().__init__()
        # Not a shared model, because this one may be trained; in float32, so saving does not change its vectors.
        self.model = model if isinstance(model, Elmo) else Elmo.from_pretrained(model, precision="float32")
        self.layer = ElmoLayer(self.model, dropout=dropout, tune_bilm=tune_bilm)
        self.tokenizer = self.model.tokenize
        self._indexer = self.model.checkpoint().indexer()
        self._boundaries = self._indexer.look_up([BEGIN_ROW, END_ROW])

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Return the ids of texts, or of lists of words."""
        sentences = []
        for position, text in enumerate(inputs):
            if isinstance(text, str):
                sentences.append([word.text for word in self.model.tokenize((prompt or "") + text)])
            elif isinstance(text, list) and all(isinstance(word, str) for word in text):
                sentences.append(text)
            else:
                raise InputError(f"Input {position} is {text!r:.60}; give a text or a list of words.")
        return pad_sentences(self._indexer, sentences)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add `token_embeddings` (B, T, 2D) to the features."""
        batch = unpad_sentences(
            self._boundaries, features["input_ids"], features["attention_mask"], features.get("word_input_ids")
        )
        output = self.layer(batch)
        return {**features, "token_embeddings": output.mixes[0]}

    def get_embedding_dimension(self) -> int:
        """Return the length of a token's vector, which Pooling needs."""
        return self.layer.output_dim

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write a model folder that Elmo.from_pretrained opens, with the mix and the settings of this module."""
        folder = Path(output_path)
        save_model(self.layer.to_elmo(), folder)
        settings = {"dropout": self.layer.mixes.dropout, "tune_bilm": self.layer.tune_bilm}
        (folder / SETTINGS_FILE).write_text(json.dumps(settings), encoding="utf-8")
        state = {name: tensor.contiguous() for name, tensor in self.layer.mixes.state_dict().items()}
        safetensors.torch.save_file(state, folder / MIX_FILE)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> "ElmoModule":
        """Open what `save` wrote, on disk or on the hub."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        hub_options = {name: options[name] for name in names if name in options}
        folder = Path(cls.load_dir_path(model_name_or_path, subfolder=subfolder, **hub_options))
        settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        module = cls(folder, **settings)
        module.layer.mixes.load_state_dict(safetensors.torch.load_file(folder / MIX_FILE))
        return module
