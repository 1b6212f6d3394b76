"""`elmo embed`: text -> the vectors of its words. `elmo encode`: text -> one vector per sentence."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, tee
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.cli import options
from elmo.cli import vector_folders as folders
from elmo.cli.options import open_model
from elmo.cli.text_input import Sentence, TextInput
from elmo.cli.vector_files import Result, check_output, is_folder, write_vectors
from elmo.errors import InputError
from elmo.heap import reuse_large_blocks
from elmo.vectors.settings import Pooling

if TYPE_CHECKING:
    from elmo.inference.layers import Layers
    from elmo.model import Elmo


def embed(
    ctx: typer.Context,
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
    input_format: folders.InputFormat = None,
    column: options.Column = None,
    id_column: folders.IdColumn = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", help="Folders: write only the vectors of this word, wherever it occurs; repeatable."
        ),
    ] = None,
    spans: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Folders: write only a vector per range of words, such as [[2, 4]], listed in this column.",
        ),
    ] = None,
    file_format: folders.FolderFormat = None,
    dtype: folders.FolderDType = None,
    on_error: folders.OnError = None,
    workers: folders.Workers = None,
    engine: folders.Engine = None,
    address: folders.Address = None,
    part_bytes: folders.PartBytes = None,
    max_words: folders.MaxWords = None,
    force: folders.Force = False,
) -> None:
    """Compute the contextual vectors of every word of a text.

    Writing a folder can be stopped at any time: the same command resumes it.

    \b
    Examples:
      elmo embed 'texts/*.txt.gz' --output vectors
      elmo embed sentences.txt --output vectors.npz
      elmo embed --text "I went to the bank" --layers top
    """
    chosen = options.read_layers(layers)
    opening = _opening(ctx.params)
    if output is not None and is_folder(output):
        folders.write_folder(
            ctx.params,
            "spans" if only or spans is not None else "words",
            opening,
            layers=tuple(chosen) if isinstance(chosen, list) else chosen,
            split_on_spaces=split_on_spaces,
            only_words=tuple(only or ()),
            spans=spans,
        )
        return
    path = check_output(output)
    folders.check_no_folder(ctx.params)
    source = TextInput(inputs, text, output=path, kind=input_format, column=column)
    sentences: Iterable[Sentence] = source
    if path is not None and path.suffix.lower() == ".npy":
        sentences = _take_only(source)
    reuse_large_blocks()
    elmo = opening(threads=threads)
    results = _embed_sentences(elmo, sentences, layers=chosen, split_on_spaces=split_on_spaces, state=state)
    write_vectors(results, path, shape=None, num_bytes=source.num_bytes)


def encode(
    ctx: typer.Context,
    inputs: options.Rows = None,
    text: options.Texts = None,
    output: options.Output = None,
    pooling: Annotated[
        Pooling,
        typer.Option(
            help="How the vectors of the words become one: their mean or max in --layers; weighted, where "
            "frequent words count little, for models with a context layer; auto is weighted for those without "
            "--layers, else mean."
        ),
    ] = "auto",
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
    input_format: folders.InputFormat = None,
    column: options.Column = None,
    id_column: folders.IdColumn = None,
    file_format: folders.FolderFormat = None,
    dtype: folders.FolderDType = None,
    on_error: folders.OnError = None,
    workers: folders.Workers = None,
    engine: folders.Engine = None,
    address: folders.Address = None,
    part_bytes: folders.PartBytes = None,
    max_words: folders.MaxWords = None,
    force: folders.Force = False,
) -> None:
    """Compute one vector for every sentence of a text.

    Writing a folder can be stopped at any time: the same command resumes it.

    \b
    Examples:
      elmo encode 'reviews/*.jsonl' --column body --output vectors
      elmo encode sentences.txt --output vectors.npy --normalize
    """
    chosen = None if layers is None else options.read_layers(layers)
    opening = _opening(ctx.params)
    if output is not None and is_folder(output):
        folders.write_folder(
            ctx.params,
            "sentences",
            opening,
            layers=tuple(chosen) if isinstance(chosen, list) else chosen,
            split_on_spaces=split_on_spaces,
            pooling=pooling,
            normalize=normalize,
        )
        return
    path = check_output(output)
    folders.check_no_folder(ctx.params)
    source = TextInput(inputs, text, output=path, kind=input_format, column=column)
    reuse_large_blocks()
    elmo = opening(threads=threads)

    def encode_sentences() -> Iterator[Result]:
        sentences = iter(source)
        while window := list(islice(sentences, options.sentences_at_once(state))):
            words = [sentence.words(elmo, split_on_spaces=split_on_spaces) for sentence in window]
            vectors = elmo.encode(words, pooling=pooling, normalize=normalize, layers=chosen)
            yield from zip(window, words, vectors, strict=True)

    shape = elmo.sentence_shape(pooling, chosen)
    write_vectors(encode_sentences(), path, shape=shape, num_bytes=source.num_bytes)


def _opening(given: dict[str, Any]) -> "partial[Elmo]":
    names = ("format", "device", "precision", "local_files_only")
    state = options.State(given["state"])
    return partial(open_model, given["model"], state=state, **{name: given[name] for name in names})


def _embed_sentences(
    model: "Elmo", sentences: Iterable[Sentence], *, layers: "Layers", split_on_spaces: bool, state: options.State
) -> Iterator[Result]:
    read, waiting = tee(sentences)
    pairs = model.embed_iter(
        (sentence.content for sentence in read), layers=layers, split_on_spaces=split_on_spaces,
        read_ahead=options.sentences_at_once(state), with_words=True,
    )  # fmt: skip
    for (words, array), sentence in zip(pairs, waiting, strict=True):
        yield sentence, words, array


def _take_only(sentences: Iterable[Sentence]) -> list[Sentence]:
    taken = list(islice(sentences, 2))
    if len(taken) == 1:
        return taken
    number = "several sentences" if taken else "no sentence"
    raise InputError(
        f"An .npy file holds one array, the words of one sentence, but {number} came; write .npz, .h5 or .jsonl."
    )
