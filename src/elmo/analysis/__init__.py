"""What a model and its training know, in numbers and pictures. Names are loaded when first used.

from elmo import Elmo, analysis
index = analysis.build_index(Elmo.from_pretrained(), "index", ["texts.txt"])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo.analysis.corpus_index import CorpusIndex
    from elmo.analysis.corpus_part import Part
    from elmo.analysis.corpus_text import ReadingSettings, find_occurrences, read_corpus
    from elmo.analysis.index_build import build_index
    from elmo.analysis.labelled_words import read_labelled
    from elmo.analysis.learning_curves import draw_learning_curves
    from elmo.analysis.mixing_bars import draw_mixing_weights
    from elmo.analysis.neighbor_results import Neighbors
    from elmo.analysis.neighbors import find_neighbors
    from elmo.analysis.occurrence_map import OccurrenceMap, draw_occurrence_map, map_occurrences
    from elmo.analysis.occurrence_vectors import embed_occurrences
    from elmo.analysis.occurrences import Occurrence
    from elmo.analysis.probe_results import ProbeResult
    from elmo.analysis.probing import probe
    from elmo.analysis.sense_evaluation import InductionScores, evaluate_induction
    from elmo.analysis.senses import WordSenses, induce_senses
    from elmo.analysis.similarity_map import SimilarityMap, compare_sentences, draw_similarity_map
    from elmo.analysis.task_mixes import MixingWeights, mixing_weights
    from elmo.analysis.training_curves import draw_training_curves

_HOMES = {
    "CorpusIndex": "corpus_index",
    "InductionScores": "sense_evaluation",
    "MixingWeights": "task_mixes",
    "Neighbors": "neighbor_results",
    "Occurrence": "occurrences",
    "OccurrenceMap": "occurrence_map",
    "Part": "corpus_part",
    "ProbeResult": "probe_results",
    "ReadingSettings": "corpus_text",
    "SimilarityMap": "similarity_map",
    "WordSenses": "senses",
    "build_index": "index_build",
    "compare_sentences": "similarity_map",
    "draw_learning_curves": "learning_curves",
    "draw_mixing_weights": "mixing_bars",
    "draw_occurrence_map": "occurrence_map",
    "draw_similarity_map": "similarity_map",
    "draw_training_curves": "training_curves",
    "embed_occurrences": "occurrence_vectors",
    "evaluate_induction": "sense_evaluation",
    "find_neighbors": "neighbors",
    "find_occurrences": "corpus_text",
    "induce_senses": "senses",
    "map_occurrences": "occurrence_map",
    "mixing_weights": "task_mixes",
    "probe": "probing",
    "read_corpus": "corpus_text",
    "read_labelled": "labelled_words",
}

__all__ = [
    "CorpusIndex",
    "InductionScores",
    "MixingWeights",
    "Neighbors",
    "Occurrence",
    "OccurrenceMap",
    "Part",
    "ProbeResult",
    "ReadingSettings",
    "SimilarityMap",
    "WordSenses",
    "build_index",
    "compare_sentences",
    "draw_learning_curves",
    "draw_mixing_weights",
    "draw_occurrence_map",
    "draw_similarity_map",
    "draw_training_curves",
    "embed_occurrences",
    "evaluate_induction",
    "find_neighbors",
    "find_occurrences",
    "induce_senses",
    "map_occurrences",
    "mixing_weights",
    "probe",
    "read_corpus",
    "read_labelled",
]


if not TYPE_CHECKING:  # a type checker shall see misspelled names

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'elmo.analysis' has no attribute {name!r}")
        return getattr(import_module(f"elmo.analysis.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
