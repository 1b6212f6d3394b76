"""`elmo encode`: text -> one vector for each sentence."""

from collections.abc import Iterator
from enum import Enum
from functools import partial
from itertools import islice
from typing import Annotated

import typer

from elmo.cli import job_options, options
from elmo.cli.job_options import JobOptions
from elmo.cli.opening import open_model
from elmo.cli.text_input import TextInput
from elmo.cli.vector_files import Result, check_output, is_folder, write_vectors
from elmo.cli.vector_job import write_folder
from elmo.heap import reuse_large_blocks


class Pooling(str, Enum):
    """How the words' vectors become one."""

    auto = "auto"
    weighted = "weighted"
    mean = "mean"
    max = "max"


def encode(
    inputs: options.Rows = None,
    text: options.Texts = None,
    output: options.Output = None,
    pooling: Annotated[
        Pooling,
        typer.Option(
            help="How the words' vectors become one: their mean or max in --layers; weighted, where frequent "
            "words count little, for models with a context layer; auto is weighted for those without --layers, "
            "else mean."
        ),
    ] = Pooling.auto,
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
    input_format: job_options.InputFormat = None,
    column: job_options.Column = None,
    id_column: job_options.IdColumn = None,
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
    """Give every sentence of a text one vector.

    A folder may be stopped at any time: the same command goes on where it was.

    \b
    Examples:
      elmo encode 'reviews/*.jsonl' --column body --output vectors
      elmo encode sentences.txt --output vectors.npy --normalize
    """
    chosen = None if layers is None else options.read_layers(layers)
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
            "pooling": pooling.value,
            "normalize": normalize,
        }
        write_folder(
            inputs, text, output, job, unit="sentences", settings=settings, opening=opening, threads=threads
        )
        return
    path = check_output(output)
    job.check_no_folder()
    source = TextInput(inputs, text, kind=job.kind, column=column, output=path)
    reuse_large_blocks()
    elmo = opening(threads=threads)

    def encode_sentences() -> Iterator[Result]:
        sentences = iter(source)
        while window := list(islice(sentences, options.sentences_at_once(state))):
            words = [sentence.words(elmo, split_on_spaces=split_on_spaces) for sentence in window]
            vectors = elmo.encode(words, pooling=pooling.value, normalize=normalize, layers=chosen)
            yield from zip(window, words, vectors, strict=True)

    shape = elmo.sentence_shape(pooling.value, chosen)
    write_vectors(encode_sentences(), path, shape=shape, num_bytes=source.num_bytes)
