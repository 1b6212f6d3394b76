"""`elmo encode`: text -> one vector for each sentence."""

from collections.abc import Iterator
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import options
from elmo.cli.opening import open_model
from elmo.cli.sentence_vector_files import sentence_writers
from elmo.cli.text_input import TextInput
from elmo.cli.vector_files import check_output
from elmo.cli.writing_vectors import Result, write_vectors
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.inference.layers import Layers
    from elmo.model import Elmo


class Pooling(str, Enum):
    """How the words' vectors become one."""

    mean = "mean"
    max = "max"


def encode(
    inputs: options.Inputs = None,
    text: options.Texts = None,
    output: options.Output = None,
    pooling: Annotated[Pooling, typer.Option(help="How the words' vectors become one.")] = Pooling.mean,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale each vector to length 1.")] = False,
    model: options.ModelName = None,
    format: options.ModelFormat = None,
    layers: options.LayerChoice = None,
    split_on_spaces: options.SplitOnSpaces = False,
    device: options.Device = "cpu",
    state: options.StateChoice = options.State.zero,
    precision: options.PrecisionChoice = "float32",
    threads: options.Threads = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Give every sentence of a text one vector.

    \b
    Example:
      elmo encode sentences.txt --output vectors.npy --normalize
    """
    path = check_output(output)
    source = TextInput(inputs, text, output=path)
    chosen = options.read_layers(layers)
    reuse_large_blocks()
    elmo = open_model(
        model,
        format=format,
        device=device,
        state=state,
        precision=precision,
        threads=threads,
        local_files_only=local_files_only,
    )

    def encode_lines() -> Iterator[Result]:
        lines = iter(source)
        while window := list(islice(lines, options.sentences_at_once(state))):
            read = [elmo.tokenize(line.text, split_on_spaces=split_on_spaces) for line in window]
            words = [[word.text for word in sentence] for sentence in read]
            vectors = elmo.encode(
                words, pooling="max" if pooling is Pooling.max else "mean", normalize=normalize, layers=chosen
            )
            yield from zip(window, words, vectors, strict=True)

    writers = sentence_writers(_vector_shape(elmo, chosen))
    write_vectors(encode_lines(), path, writers, name="vector", num_bytes=source.num_bytes)


def _vector_shape(model: "Elmo", layers: "Layers") -> tuple[int, ...]:
    """Give the shape of one sentence's vectors, needed even if there is no sentence."""
    if layers == "all":
        return (model.num_layers, model.dim)
    return (model.num_layers * model.dim if layers == "concat" else model.dim,)
