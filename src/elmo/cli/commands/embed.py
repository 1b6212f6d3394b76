"""`elmo embed`: text -> the vectors of its words. `elmo encode`: text -> one vector per sentence."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elmo.cli import options
from elmo.cli.options import ModelOptions, expand_options, option
from elmo.cli.run import resumable
from elmo.cli.text_input import Sentence, TextInput
from elmo.cli.vector_files import Result, check_output, is_folder, write_vectors
from elmo.errors import InputError
from elmo.files.sources import Kind
from elmo.files.work_folder import MANIFEST
from elmo.heap import reuse_large_blocks
from elmo.vectors.settings import DType, FileFormat, Pooling, Unit

if TYPE_CHECKING:
    from elmo.inference.layers import Layers
    from elmo.model import Elmo


@dataclass(frozen=True)
class VectorOptions(ModelOptions):
    """What is read, which model computes, and what is written; the later options are for folders only."""

    inputs: options.Rows = None
    text: options.Texts = None
    output: Path | None = option(
        "--output -o DIR|FILE",
        "Folder or file to write. A name without an ending is a folder, for text of any size; the ending "
        ".npz, .npy, .jsonl, .h5 or .hdf5 chooses the format of a single file. Without it, or with -, JSON "
        "lines go to standard output.",
        None,
    )
    layers: options.LayerChoice = None
    split_on_spaces: options.SplitOnSpaces = False
    state: options.StateChoice = "zero"
    precision: options.PrecisionChoice = "float32"
    threads: options.Threads = None
    input_format: Kind | None = option("--format", "Format of the input files.", None, shown="by the ending")
    column: options.Column = None
    id_column: str | None = option("--id-column NAME", "Folders: column of the row ids.", None, shown="id")
    file_format: FileFormat | None = option(
        "--file-format", "Folders: format of the files in it.", None, shown="parquet"
    )
    dtype: DType | None = option(
        "", "Folders: type of the numbers; int8 has a scale per vector.", None, shown="float32"
    )
    on_error: Literal["stop", "reject"] | None = option(
        "--on-error",
        "Folders: stop at a row that cannot be read, or list it in rejects.jsonl and continue.",
        None,
        shown="stop",
    )
    workers: int | None = option("--workers N", "Folders: number of processes.", None, shown="one per two threads")
    engine: Literal["local", "ray"] | None = option(
        "--engine", "Folders: compute on this machine, or on a Ray cluster.", None, shown="local"
    )
    address: str | None = option(
        "--address ADDRESS", "Ray cluster to use, such as auto or ray://host:10001.", None
    )
    part_bytes: int | None = option(
        "--part-bytes N", "Folders: size of the text in one part, the unit of resuming.", None, shown="1048576"
    )
    max_words: int | None = option("--max-words N", "Folders: longest row, in words.", None, shown="32768")
    force: bool = option("--force", "Replace other vectors in the folder.", False)

    def write_file(
        self,
        compute: "Callable[[Elmo, Iterable[Sentence]], Iterator[Result]]",
        find_shape: "Callable[[Elmo], tuple[int, ...]] | None" = None,
        **folder_only: Any,
    ) -> None:
        """Write one file or standard output; InputError for an option that only a folder has.

        `find_shape` returns the shape of a sentence's vector; without it the vectors are those of words.
        """
        path = check_output(self.output)
        for name, value in {**folder_only, **{name: getattr(self, name) for name in _FOLDER_ONLY}}.items():
            if value:
                raise InputError(
                    f"--{name.replace('_', '-')} is for folders of vectors, but --output names none; choose a "
                    "name without an ending."
                )
        source = TextInput(self.inputs, self.text, output=path, kind=self.input_format, column=self.column)
        sentences: Iterable[Sentence] = source
        if find_shape is None and path is not None and path.suffix.lower() == ".npy":
            sentences = _take_only(source)
        reuse_large_blocks()
        model = self.open(texts=source.texts, state=self.state, precision=self.precision, threads=self.threads)
        shape = None if find_shape is None else find_shape(model)
        write_vectors(compute(model, sentences), path, shape=shape, num_bytes=source.num_bytes)

    def write_folder(self, unit: Unit, **settings: Any) -> None:
        """Write a folder of vectors; `settings` are those that decide the vectors."""
        if self.text:
            raise InputError("--text goes with standard output or one file; name files, or -, to fill a folder.")
        if not self.inputs:
            raise InputError("Nothing to read; name files, or - for standard input.")
        if self.state == "carry":
            raise InputError(
                "--state carry reads one sentence after another, but the parts of a folder are computed "
                "independently; write one file instead, such as vectors.h5."
            )
        from elmo.vectors.embed import embed_files
        from elmo.vectors.settings import VectorSettings
        from elmo.vectors.writing import share_threads

        settings |= {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        chosen = VectorSettings(unit=unit, split_on_spaces=self.split_on_spaces, **settings)
        on_ray = self.engine == "ray"
        given = (None, None) if on_ray else (self.workers, self.threads)
        num_workers, num_threads = share_threads(*given, on_cpu=self.device == "cpu")
        reuse_large_blocks()
        assert self.output is not None
        model = self.open(precision=self.precision, threads=num_threads)
        before = _read_time(self.output)
        with resumable():
            vectors = embed_files(
                model,
                self.inputs,
                self.output,
                chosen,
                input_format=self.input_format,
                on_error=self.on_error or "stop",
                workers=self.workers if on_ray else num_workers,
                threads=self.threads if on_ray else num_workers * num_threads,
                engine=self.engine or "local",
                address=self.address,
                force=self.force,
                progress=True,
            )
        counts = vectors.counts
        facts = {"rows": counts.num_written, "words": counts.num_words, "vectors": counts.num_vectors}
        if unit == "spans":
            facts["rows without a chosen word"] = counts.num_without_span
        if counts.num_rejected:
            facts["rejected rows, see rejects.jsonl"] = counts.num_rejected
        listed = ", ".join(f"{name}: {number:,}" for name, number in facts.items())
        is_old = before is not None and _read_time(self.output) == before
        print(f"{self.output} was finished already ({listed})." if is_old else f"Wrote {self.output} ({listed}).")


_SETTINGS = ("column", "id_column", "file_format", "dtype", "part_bytes", "max_words")
_FOLDER_ONLY = (
    "id_column", "file_format", "dtype", "on_error", "workers", "engine", "address", "part_bytes", "max_words",
    "force",
)  # fmt: skip


@expand_options
def embed(
    given: VectorOptions,
    only: list[str] | None = option(
        "--only WORD", "Folders: write only the vectors of this word, wherever it occurs; repeatable.", None
    ),
    spans: str | None = option(
        "--spans NAME",
        "Folders: write only a vector per range of words, such as [[2, 4]], listed in this column.",
        None,
    ),
) -> None:
    """Compute the contextual vectors of every word of a text.

    Writing a folder can be stopped at any time: the same command resumes it.

    \b
    Examples:
      elmo embed 'texts/*.txt.gz' --output vectors
      elmo embed sentences.txt --output vectors.npz
      elmo embed --text "I went to the bank" --layers top
    """
    layers = options.read_layers(given.layers)
    if is_folder(given.output):
        unit: Unit = "spans" if only or spans is not None else "words"
        given.write_folder(unit, layers=_freeze(layers), only_words=tuple(only or ()), spans=spans)
        return

    def embed_sentences(model: "Elmo", sentences: Iterable[Sentence]) -> Iterator[Result]:
        read, waiting = tee(sentences)
        pairs = model.embed_iter(
            (sentence.content for sentence in read), layers=layers, split_on_spaces=given.split_on_spaces,
            read_ahead=options.sentences_at_once(given.state), with_words=True,
        )  # fmt: skip
        for (words, array), sentence in zip(pairs, waiting, strict=True):
            yield sentence, words, array

    given.write_file(embed_sentences, only=only, spans=spans)


@expand_options
def encode(
    given: VectorOptions,
    pooling: Pooling = option(
        "",
        "How the vectors of the words become one: their mean or max in --layers; weighted, where frequent words "
        "count little, for models with a context layer; auto is weighted for those without --layers, else mean.",
        "auto",
    ),
    normalize: bool = option("--normalize", "Scale each vector to length 1.", False),
) -> None:
    """Compute one vector for every sentence of a text.

    Writing a folder can be stopped at any time: the same command resumes it.

    \b
    Examples:
      elmo encode 'reviews/*.jsonl' --column body --output vectors
      elmo encode sentences.txt --output vectors.npy --normalize
    """
    layers = None if given.layers is None else options.read_layers(given.layers)
    if is_folder(given.output):
        given.write_folder("sentences", layers=_freeze(layers), pooling=pooling, normalize=normalize)
        return

    def encode_sentences(model: "Elmo", sentences: Iterable[Sentence]) -> Iterator[Result]:
        remaining = iter(sentences)
        while window := list(islice(remaining, options.sentences_at_once(given.state))):
            words = [sentence.words(model, split_on_spaces=given.split_on_spaces) for sentence in window]
            vectors = model.encode(words, pooling=pooling, normalize_embeddings=normalize, layers=layers)
            yield from zip(window, words, vectors, strict=True)

    given.write_file(encode_sentences, lambda model: model.sentence_shape(pooling, layers))


def _freeze(layers: "Layers | None") -> Any:
    return tuple(layers) if isinstance(layers, list) else layers


def _take_only(sentences: Iterable[Sentence]) -> list[Sentence]:
    taken = list(islice(sentences, 2))
    if len(taken) == 1:
        return taken
    number = "several sentences" if taken else "no sentence"
    raise InputError(
        f"An .npy file holds one array, the words of one sentence, but {number} came; write .npz, .h5 or .jsonl."
    )


def _read_time(output: Path) -> int | None:
    return (output / MANIFEST).stat().st_mtime_ns if (output / MANIFEST).is_file() else None
