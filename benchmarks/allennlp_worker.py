"""Run AllenNLP's Elmo module in a separate process for inference.py.

It only needs torch, NumPy and h5py; the other packages that AllenNLP imports are replaced by stubs.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import h5py  # noqa: F401  # before the stubs
import numpy as np
import torch
from worker_loop import Sentences, cut, serve

UNUSED = (
    "_jsonnet", "base58", "cached_path", "checklist", "dill", "fairscale", "huggingface_hub", "lmdb", "matplotlib",
    "more_itertools", "nltk", "pytest", "scipy", "sklearn", "spacy", "tensorboardX", "termcolor", "torchvision",
    "tqdm", "transformers", "wandb",
)  # fmt: skip


class _StandIn(type):
    """A class whose attributes are classes of the same kind, usable as bases and decorators."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name, (), {})

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        # Decorated objects and paths of files are returned unchanged.
        return arguments[0] if len(arguments) == 1 else _StandIn("instance", (), {})


class _EmptyModule(ModuleType):
    __path__: list[str] = []  # noqa: RUF012  # makes it a package whose submodules are stubs too
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name, (), {})


class _StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        unused = name.partition(".")[0] in UNUSED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if unused else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def open_model(options: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    sys.meta_path.insert(0, _StandInFinder())
    from allennlp.modules.elmo import Elmo, batch_to_ids  # type: ignore[import-not-found]

    torch.set_num_threads(options["num_threads"])
    model = Elmo(options["options"], options["weights"], 1, dropout=0.0).eval()

    @torch.inference_mode()
    def embed(sentences: Sentences, batch_size: int) -> None:
        for batch in cut(sentences, batch_size):
            model(batch_to_ids(batch))["elmo_representations"][0].numpy()

    @torch.inference_mode()
    def save_layers(sentences: Sentences, path: str) -> None:
        arrays = []
        for words in sentences:
            model._elmo_lstm._elmo_lstm.reset_states()
            layers = model._elmo_lstm(batch_to_ids([words]))["activations"]
            arrays.append(np.stack([layer[0, 1:-1].numpy() for layer in layers]))
        np.savez(path, *arrays)

    return {"embed": embed, "save_layers": save_layers}


if __name__ == "__main__":
    serve(open_model)
