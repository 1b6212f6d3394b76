"""`elmo embed`: text -> the vectors of its words."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from elmo.cli import options
from elmo.cli.opening import open_model
from elmo.cli.text_input import Line, TextInput
from elmo.cli.vector_files import check_output
from elmo.cli.word_vector_files import WORD_WRITERS
from elmo.cli.writing_vectors import Result, write_vectors
from elmo.errors import InputError
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.inference.layers import Layers
    from elmo.model import Elmo


def embed(
    inputs: options.Inputs = None,
    text: options.Texts = None,
    output: options.Output = None,
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
    """Give every word of a text its vectors in its sentence.

    \b
    Examples:
      elmo embed sentences.txt --output vectors.npz
      elmo embed --text "I went to the bank" --layers top
    """
    path = check_output(output)
    source = TextInput(inputs, text, output=path)
    chosen = options.read_layers(layers)
    lines: Iterable[Line] = source
    if path is not None and path.suffix.lower() == ".npy":
        lines = _take_only(source)
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
    results = _embed_lines(elmo, lines, layers=chosen, split_on_spaces=split_on_spaces, state=state)
    write_vectors(results, path, WORD_WRITERS, name="vectors", num_bytes=source.num_bytes)


def _embed_lines(
    model: "Elmo", lines: Iterable[Line], *, layers: "Layers", split_on_spaces: bool, state: options.State
) -> Iterator[Result]:
    waiting: deque[tuple[Line, list[str]]] = deque()

    def read() -> Iterator[list[str]]:
        for line in lines:
            words = [word.text for word in model.tokenize(line.text, split_on_spaces=split_on_spaces)]
            waiting.append((line, words))
            yield words

    for array in model.embed_iter(read(), layers=layers, read_ahead=options.sentences_at_once(state)):
        line, words = waiting.popleft()
        yield line, words, array


def _take_only(lines: Iterable[Line]) -> list[Line]:
    taken = list(islice(lines, 2))
    if len(taken) == 1:
        return taken
    number = "several sentences" if taken else "no sentence"
    raise InputError(
        f"An .npy file holds one array, the words of one sentence, but {number} came; write .npz, .h5 or .jsonl."
    )
