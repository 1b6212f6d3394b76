"""`elmo convert`: a model in one format -> the same model in another."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from elmo.cli import options
from elmo.cli.model_output import check_model_output
from elmo.cli.options import open_model_files
from elmo.errors import InputError
from elmo.files.durable import output_folder

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.folder import Storage


class Target(str, Enum):
    """The formats that can be written."""

    elmo = "elmo"
    hdf5 = "hdf5"


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="A folder, an .hdf5 or .zip file, an alias such as 'small', or a hub id."
        ),
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write the model to.")],
    to: Annotated[
        Target,
        typer.Option(
            help="Format to write. elmo: the folder of this package. hdf5: options.json, weights.hdf5 and "
            "vocab.txt, for bilm-tf and AllenNLP."
        ),
    ] = Target.elmo,
    storage: Annotated[
        options.StoredAs | None,
        typer.Option(
            show_default="as IN is stored",
            help="Storage of the weights: float16 takes half the bytes of float32, compact also stores the "
            "softmax in 8 bits. Vectors change by the rounding.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in OUT.")] = False,
    format: options.ModelFormat = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Write a model in another format; vectors stay the same.

    \b
    Example:
      elmo convert elmo_weights.hdf5 my-model
    """
    if to is Target.hdf5 and storage not in (None, options.StoredAs.float32):
        assert storage is not None
        raise InputError(f"--storage is {storage.value}, but HDF5 models are stored in float32; leave it out.")
    check_model_output(source, output, force=force, source_name="IN")
    checkpoint = open_model_files(source, format=format, local_files_only=local_files_only)
    with output_folder(output) as folder:
        if to is Target.elmo:
            from elmo.checkpoint.folder import write_folder

            stored_as = checkpoint.storage if storage is None else storage.value
            write_folder(checkpoint, folder, storage=cast("Storage", stored_as))
        else:
            from elmo.checkpoint.formats.hdf5 import write_hdf5

            write_hdf5(checkpoint, folder)
    print(f"Wrote {output}: {', '.join(sorted(file.name for file in output.iterdir()))}.")
    for loss in _losses(checkpoint) if to is Target.hdf5 else []:
        print(f"Not written, because HDF5 models have no place for it: {loss}.")


def _losses(checkpoint: "Checkpoint") -> list[str]:
    """Return what an HDF5 file cannot hold of a model."""
    from elmo.config import ModelConfig

    config, usual = checkpoint.config, ModelConfig()
    losses = []
    if config.softmax:
        losses.append(f"the softmax over {config.softmax.num_words:,} words")
    if checkpoint.context:
        losses.append(f"the context layer over {checkpoint.context.config.num_words:,} words")
    if config.words and config.words.max_word_length:
        losses.append(f"that words are cut to {config.words.max_word_length} characters")
    for name in ("begin_word", "end_word", "unknown_word"):
        if getattr(config, name) != getattr(usual, name):
            losses.append(f"{name} = {getattr(config, name)!r}")
    return losses
