"""`elmo embed` computes the vectors of words; `elmo encode` computes one vector per sentence."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from elmo.cli import options
from elmo.cli.command import list_given, option
from elmo.cli.options import ModelOptions
from elmo.cli.run import resumable
from elmo.cli.terminal import say
from elmo.errors import InputError
from elmo.files.sources import STDIN, InputFormat
from elmo.vectors.settings import FILE_ENDINGS, Unit, VectorSettings

_OUTPUT = (
    "Folder or file to write. A name without an extension is a folder, for text of any size; the extension .npz, "
    ".npy, .jsonl, .h5, .hdf5 or .parquet selects the format of a single file. If missing or -, JSON lines go to "
    "standard output."
)
_SHOWN = {"language": "en", "column": "text, sentence, tokens or words", "id_column": "id"}


@dataclass(frozen=True)
class VectorOptions(ModelOptions):
    """Input, model and output of `elmo embed` and `elmo encode`; the last options apply to folders only."""

    inputs: options.Rows = None
    text: options.Texts = None
    output: Path | None = option("--output -o DIR|FILE", _OUTPUT, None)
    layers: options.LayerChoice = None
    state: options.StateChoice = "zero"
    input_format: InputFormat | None = option("--format", "Format of the input files.", None, shown="by the extension")
    on_error: Literal["stop", "reject"] = option("", "Stop at invalid rows, or list them and continue.", "stop")
    workers: int | None = option("--workers N", "Folders: number of processes.", None, shown="one per two threads")
    engine: Literal["local", "ray"] = option("", "Folders: local processes or Ray.", "local")
    address: str | None = option("--address ADDRESS", "Ray cluster, such as auto or ray://host:10001.", None)
    force: bool = option("--force", "Replace existing vectors in the folder.", False)

    def write(self, unit: Unit, chosen: dict[str, Any]) -> None:
        """Write vectors to a folder, a file or standard output; `chosen` has the given VectorSettings."""
        from elmo.heap import reuse_large_blocks

        layers: Any = options.read_layers(self.layers)
        settings = VectorSettings(unit=unit, layers=tuple(layers) if isinstance(layers, list) else layers, **chosen)
        reuse_large_blocks()
        output = None if self.output is None or str(self.output) == STDIN else self.output
        if output is not None and _is_folder(output):
            return self._write_folder(output, settings)
        if folder_only := [flag for flag in list_given() if flag in _FOLDER_ONLY]:
            raise InputError(
                f"{folder_only[0]} is for folders of vectors, but --output is not a folder; use a name without an "
                "extension."
            )
        if output is not None and output.suffix.lower() not in FILE_ENDINGS:
            raise InputError(
                f"--output is {str(output)!r}; the extension selects the format: use {', '.join(FILE_ENDINGS)}, or a "
                "name without an extension for a folder."
            )
        self._write_file(output, settings)

    def _write_file(self, path: Path | None, settings: VectorSettings) -> None:
        from elmo.cli.text_input import TextInput
        from elmo.vectors.embed import columns_of, resolve, write_file

        source = TextInput(
            self.inputs, self.text, output=path, input_format=self.input_format, columns=columns_of(settings)
        )
        model = self.open(source.texts, state=self.state)
        settings = resolve(settings, model)
        with source.rows("sentences", prints=path is None) as rows:
            num_rows, num_words = write_file(model, rows, path, settings)
        if path is not None:
            say(f"Wrote {path} (sentences: {num_rows:,}, words: {num_words:,}).")

    def _write_folder(self, output: Path, settings: VectorSettings) -> None:
        from elmo.cli.text_input import split_inputs

        files, sentences = split_inputs(self.inputs)
        if self.text or sentences:
            raise InputError(
                "Sentences can be written to standard output or one file; give files, or -, to write a folder."
            )
        from elmo.vectors.embed import embed_files
        from elmo.vectors.writing import plan_workers

        on_ray = self.engine == "ray"
        requested = (None, None) if on_ray else (self.workers, self.threads)
        num_workers, num_threads = plan_workers(*requested, on_cpu=self.device == "cpu")
        model = replace(self, threads=num_threads).open(state=self.state)
        with resumable():
            vectors = embed_files(
                model, files, output, settings, input_format=self.input_format, on_error=self.on_error,
                num_workers=self.workers if on_ray else num_workers,
                num_threads=self.threads if on_ray else num_workers * num_threads,
                engine=self.engine, address=self.address, force=self.force, show_progress_bar=True,
            )  # fmt: skip
        counts = vectors.counts
        say(
            f"Wrote {output} (rows: {counts.num_written:,}, words: {counts.num_words:,}, "
            f"vectors: {counts.num_vectors:,})."
        )
        if counts.num_rejected:
            say(f"Rejected rows, see rejects.jsonl: {counts.num_rejected:,}.")


_FOLDER_ONLY = ("--file-format", "--on-error", "--workers", "--engine", "--address", "--part-bytes", "--force")


def embed(
    vectors: VectorOptions,
    settings: Annotated[dict[str, Any], VectorSettings, {**_SHOWN, "pooling": None, "normalize": None}],
) -> None:
    """Compute the contextual vectors of every word of a text.

    Writing a folder can be stopped at any time: the same command resumes it.

    \b
    Examples:
      elmo embed "I went to the bank" --layers top
      elmo embed sentences.txt --output vectors.npz
      elmo embed 'texts/*.txt.gz' --output vectors
    """
    unit: Unit = "spans" if "only_words" in settings or "spans" in settings else "words"
    vectors.write(unit, {**settings, "only_words": tuple(settings.get("only_words", ()))})


def encode(
    vectors: VectorOptions,
    settings: Annotated[dict[str, Any], VectorSettings, {**_SHOWN, "only_words": None, "spans": None}],
) -> None:
    """Compute one vector for every sentence of a text.

    \b
    Examples:
      elmo encode "I went to the bank" "I sat by the river"
      elmo encode sentences.txt --output vectors.npy --normalize
      elmo encode 'reviews/*.jsonl' --column body --output vectors
    """
    vectors.write("sentences", settings)


def _is_folder(path: Path) -> bool:
    """Return whether --output is a folder: a name without an extension, or an existing folder."""
    if path.suffix.lower() in FILE_ENDINGS:
        return False
    return path.is_dir() or (not path.suffix and not path.name.startswith("."))
