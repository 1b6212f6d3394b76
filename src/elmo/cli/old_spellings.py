"""Flags that had another name in the release before -> their present names, so that scripts keep working.

One name has one meaning in all commands now. The old names are in no help and go with the next release.
"""

from collections.abc import Sequence

MODEL_FORMATS = ("elmo", "manylangs", "hdf5", "tensorflow", "zip")
_GROUPS = ("task", "plot")
_OF_ANALYSIS = {"--layer": "--layers", "--field": "--column", "--format": "--model-format"}
_OF_VECTORS = {"--input-format": "--format"}
_OF_MODELS = {"--format": "--model-format"}
RENAMED: dict[str, dict[str, str]] = {
    "embed": _OF_VECTORS,
    "encode": _OF_VECTORS,
    "similarity": _OF_MODELS,
    "score": {**_OF_MODELS, "--words": "--by-word"},
    "substitutes": {**_OF_MODELS, "--index": "--word-index"},
    "evaluate": _OF_MODELS,
    "info": _OF_MODELS,
    "convert": _OF_MODELS,
    "align": {**_OF_MODELS, "--words": "--max-words"},
    "average": _OF_MODELS,
    "vocab": _OF_MODELS,
    "bench": _OF_MODELS,
    "neighbors": {**_OF_ANALYSIS, "--words": "--match", "--index": "--word-index"},
    "senses": _OF_ANALYSIS,
    "prepare": {"--field": "--column"},
    "plot similarity": {**_OF_MODELS, "--layer": "--layers"},
    "plot map": _OF_ANALYSIS,
    "task train": {"--words": "--word-features"},
}


def translate(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a call with old names of flags replaced."""
    num_names = 2 if arguments and arguments[0] in _GROUPS else 1
    command = " ".join(arguments[:num_names])
    renamed = RENAMED.get(command, {})
    translated = list(arguments)
    for place in range(num_names, len(translated)):
        if translated[place] == "--":
            break
        name, equals, value = translated[place].partition("=")
        if command in ("embed", "encode") and name == "--format":
            # The format of the model was meant by values that the format of the input does not have.
            meant = value if equals else " ".join(translated[place + 1 : place + 2])
            name = "--model-format" if meant in MODEL_FORMATS else name
        translated[place] = renamed.get(name, name) + equals + value
    return translated
