"""`elmo embed`: text -> the vectors of its words."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.cli import job_options, options
from elmo.cli.job_options import JobOptions
from elmo.cli.opening import open_model
from elmo.cli.text_input import Sentence, TextInput
from elmo.cli.vector_files import Result, check_output, is_folder, write_vectors
from elmo.cli.vector_job import write_folder
from elmo.errors import InputError
from elmo.heap import reuse_large_blocks

if TYPE_CHECKING:
    from elmo.inference.layers import Layers
    from elmo.model import Elmo
    from elmo.vectors.settings import Unit


def embed(
    inputs: options.Rows = None,
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
    input_format: job_options.InputFormat = None,
    column: job_options.Column = None,
    id_column: job_options.IdColumn = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", help="Folders: only the vectors of this word, wherever it stands; repeatable."
        ),
    ] = None,
    spans: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Folders: only a vector for each range of words, such as [[2, 4]], that this column names.",
        ),
    ] = None,
    file_format: job_options.FolderFormat = None,
    dtype: job_options.FolderDType = None,
    on_error: job_options.OnErrorChoice = None,
    workers: job_options.NumWorkers = None,
    engine: job_options.EngineChoice = None,
    address: job_options.Address = None,
    part_bytes: job_options.PartBytes = None,
    max_words: job_options.MaxWords = None,
    force: job_options.Force = False,
) -> None:
    """Give every word of a text its vectors in its sentence.

    A folder may be stopped at any time: the same command goes on where it was.

    \b
    Examples:
      elmo embed 'texts/*.txt.gz' --output vectors
      elmo embed sentences.txt --output vectors.npz
      elmo embed --text "I went to the bank" --layers top
    """
    chosen = options.read_layers(layers)
    opening = partial(
        open_model,
        model,
        format=format,
        device=device,
        state=state,
        precision=precision,
        local_files_only=local_files_only,
    )
    job = JobOptions(
        input_format, column, id_column, file_format, dtype, on_error, workers, engine, address, part_bytes,
        max_words, force,
    )  # fmt: skip
    if output is not None and is_folder(output):
        settings = {
            "layers": tuple(chosen) if isinstance(chosen, list) else chosen,
            "split_on_spaces": split_on_spaces,
            "only_words": tuple(only or ()),
            "spans": spans,
        }
        unit: Unit = "spans" if only or spans is not None else "words"
        write_folder(inputs, text, output, job, unit=unit, settings=settings, opening=opening, threads=threads)
        return
    path = check_output(output)
    job.check_no_folder(only=only, spans=spans)
    source = TextInput(inputs, text, kind=job.kind, column=column, output=path)
    sentences: Iterable[Sentence] = source
    if path is not None and path.suffix.lower() == ".npy":
        sentences = _take_only(source)
    reuse_large_blocks()
    elmo = opening(threads=threads)
    results = _embed_sentences(elmo, sentences, layers=chosen, split_on_spaces=split_on_spaces, state=state)
    write_vectors(results, path, shape=None, num_bytes=source.num_bytes)


def _embed_sentences(
    model: "Elmo", sentences: Iterable[Sentence], *, layers: "Layers", split_on_spaces: bool, state: options.State
) -> Iterator[Result]:
    waiting: deque[tuple[Sentence, list[str]]] = deque()

    def read() -> Iterator[list[str]]:
        for sentence in sentences:
            words = sentence.words(model, split_on_spaces=split_on_spaces)
            waiting.append((sentence, words))
            yield words

    for array in model.embed_iter(read(), layers=layers, read_ahead=options.sentences_at_once(state)):
        yield *waiting.popleft(), array


def _take_only(sentences: Iterable[Sentence]) -> list[Sentence]:
    taken = list(islice(sentences, 2))
    if len(taken) == 1:
        return taken
    number = "several sentences" if taken else "no sentence"
    raise InputError(
        f"An .npy file holds one array, the words of one sentence, but {number} came; write .npz, .h5 or .jsonl."
    )
