"""The errors that this package raises: each message names the value, the rule and the fix.

Wrong keyword arguments lead to errors that name ours, also for the names that other libraries use.
"""

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")


class ElmoError(Exception):
    """A mistake that the caller can fix; commands print it in one line and exit with 2."""


class ConfigError(ElmoError):
    """A setting is unknown, out of range or contradicts another one."""


class InputError(ElmoError):
    """The text or the arguments of a call are not valid."""


class CheckpointError(ElmoError):
    """A model file is missing, damaged, of an unknown format or contradicts its description."""


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error message that is not empty, or else the error's name."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()


_PRECISION = "precision='auto', 'float32' or 'int8'"
_CACHE = "the environment variable ELMO_CACHE"
_LAYERS = "layers='auto', 'average', 'top', 'all', 'concat', 'meaning', a number or weights"
_WORDS = "embed() for word vectors, encode() for sentence vectors"
# The names of transformers, sentence-transformers, AllenNLP, simple_elmo and gensim -> what to use here.
_FOREIGN = {
    "torch_dtype": _PRECISION,
    "dtype": _PRECISION,
    "quantization_config": _PRECISION,
    **{name: f"Elmo.from_pretrained(…, {name}=…)" for name in ("precision", "device", "num_threads", "state")},
    "load_in_8bit": "precision='int8'",
    "cache_dir": _CACHE,
    "cache_folder": _CACHE,
    "device_map": "device='cpu' or 'cuda'",
    "use_auth_token": "token, or the environment variable HF_TOKEN",
    "layer": _LAYERS,
    "output_hidden_states": "layers='all'",
    "output_value": _WORDS,
    "convert_to_numpy": "nothing: arrays are the default",
    "prompt": "nothing: an ELMo model has no prompts",
    "prompt_name": "nothing: an ELMo model has no prompts",
    "truncate_dim": "nothing: slice the array, vectors[:, :n], and normalize again",
    "max_length": "nothing: text of any length is read to its end",
    "truncation": "nothing: text of any length is read to its end",
    "padding": "nothing: each sentence has one row per word",
    "normalize": "normalize_embeddings",
    "threads": "num_threads",
    "progress": "show_progress_bar",
    "topn": "top_k",
    "is_split_into_words": "nothing: a list of lists of strings is taken as words",
    "options_file": "the model's folder or weights file as the first argument",
    "weight_file": "the model's folder or weights file as the first argument",
}


_FOREIGN_ATTRIBUTES = {
    "tokenizer": "tokenize(text)",
    "fill_mask": "substitutes('… [word] …')",
    "perplexity": "score(sentences)",
    "neighbors": "most_similar(text, texts), or elmo.analysis.find_neighbors",
    "similarity_pairwise": "the diagonal of similarity(first, second)",
    "encode_query": "encode(sentences)",
    "encode_document": "encode(sentences)",
    "get_embedding_dimension": "dim",
    "parameters": "elmo.ElmoLayer(model), a torch module",
    "half": "Elmo.from_pretrained(…, precision='int8')",
}


def describe_attribute(owner: str, name: str) -> str:
    """Return the message for a missing attribute; for a name of another library, name ours."""
    hint = f"; use {_FOREIGN_ATTRIBUTES[name]}" if name in _FOREIGN_ATTRIBUTES else ""
    return f"{owner!r} object has no attribute {name!r}{hint}."


def explain_keywords(function: Callable[ParametersT, ResultT]) -> Callable[ParametersT, ResultT]:
    """Return the function, whose TypeError for an unknown keyword names the one that this package uses."""
    code = function.__code__
    accepted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*arguments: ParametersT.args, **keywords: ParametersT.kwargs) -> ResultT:
        try:
            return function(*arguments, **keywords)
        except TypeError:
            # Looked at after the failure only, so that a correct call costs nothing.
            if unknown := [name for name in keywords if name not in accepted]:
                raise TypeError(_describe(function.__qualname__, unknown[0], accepted)) from None
            raise

    return call


def _describe(function: str, unknown: str, accepted: Sequence[str]) -> str:
    import difflib

    usable = [name for name in accepted if name not in ("self", "cls")]
    instead = _FOREIGN.get(unknown)
    if instead is None or (instead in _FOREIGN.values() and instead.isidentifier() and instead not in usable):
        close = difflib.get_close_matches(unknown, usable, 1)
        instead = close[0] if close else f"one of {', '.join(usable)}"
    return f"{function}() has no argument {unknown!r}; use {instead}."
