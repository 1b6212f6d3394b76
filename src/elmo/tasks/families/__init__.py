"""The task families: their networks, built from the blocks in blocks.py, and their scores. Scores need no torch."""

from importlib import import_module
from typing import Any, cast

_NETWORKS = {
    "tagging": "tagging.Tagging", "classification": "labels.Classification", "pairs": "labels.Pairs",
    "relations": "labels.Relations", "question_answering": "question_answering.QuestionAnswering",
    "senses": "senses.Senses",
}  # fmt: skip


def choose_family(name: str) -> type[Any]:
    """Return the subclass of TaskNetwork for a family; it takes a MakeEncoder, Labels and TaskSettings."""
    module, _, network = _NETWORKS[name].partition(".")
    return cast(type[Any], getattr(import_module(f"elmo.tasks.families.{module}"), network))
