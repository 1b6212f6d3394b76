"""`elmo convert`, `average`, `vocab` and `export`: a model -> another form of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import FilesOptions
from elmo.cli.terminal import say
from elmo.errors import InputError
from elmo.files.durable import check_parent

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.weights import Storage

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STORAGE = (
    "Type of the stored weights: float16 needs half the space of float32, compact also stores the softmax as int8. "
    "Rounding changes the vectors slightly."
)
ModelOutput = Annotated[Path, argument("OUT", "Folder to write the model to.")]


def check_folder(output: Path) -> None:
    """Raise InputError unless a model can be written to this folder."""
    check_parent(output)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(f"{output} exists and is not an empty folder; give a new one.")


def write_model(checkpoint: "Checkpoint", output: Path, storage: str = "float32") -> None:
    """Write a model folder."""
    from elmo.checkpoint.folder import write_folder

    write_folder(checkpoint, output, storage=cast("Storage", storage))


def convert(
    source: Annotated[str, argument("IN", options.MODEL_HELP)],
    output: ModelOutput,
    files: FilesOptions,
    to: Literal["elmo", "hdf5"] = option("", "Our folder, or the files of bilm-tf and AllenNLP.", "elmo"),
    storage: options.StoredAs | None = option("", STORAGE, None, shown="as the model is stored"),
) -> None:
    """Write a model in another format; its vectors do not change.

    \b
    Example:
      elmo convert elmo_weights.hdf5 my-model
    """
    if to == "hdf5" and storage not in (None, "float32"):
        raise InputError(f"--storage is {storage}, but HDF5 models are stored in float32; leave it out.")
    check_folder(output)
    checkpoint = files.read(source)
    if to == "elmo":
        write_model(checkpoint, output, storage or checkpoint.storage)
    else:
        from elmo.checkpoint.formats.hdf5 import write_hdf5

        write_hdf5(checkpoint, output)
    say(f"Wrote {output}: {', '.join(sorted(file.name for file in output.iterdir()))}.")
    optional = {"softmax": checkpoint.config.softmax, "context": checkpoint.context, "sentence": checkpoint.sentence}
    lost = [name for name, value in optional.items() if value]
    if to == "hdf5" and lost:
        say(f"HDF5 has no place for these, so they were not written: {', '.join(lost)}.")


def average(
    models: Annotated[list[str], argument("MODEL", "Two or more models, such as checkpoints of one run.")],
    files: FilesOptions,
    output: Path = option("--output -o OUT", "Folder to write the model to."),
    share: list[float] | None = option("", "Weight of each model, in order; repeatable.", None, shown="equal"),
) -> None:
    """Average the weights of related models.

    The models must be fine-tuned from a common ancestor, such as the last checkpoints of a run, or a model before
    and after distillation. Their mean is often better than each of them.

    \b
    Example:
      elmo average run/checkpoints/update-00009000 run/checkpoints/update-00010000 -o mean
    """
    check_folder(output)
    from elmo.checkpoint import average as average_checkpoints

    checkpoints = [files.read(name) for name in models]
    write_model(average_checkpoints(checkpoints, share), output)
    say(f"Wrote {output}, the mean of {len(models)} models.")
    if any(checkpoint.context for checkpoint in checkpoints):
        say("It has no context layer, because those of the models do not fit it; add one with elmo fuse.")


def vocab(
    model: options.ModelArgument,
    output: ModelOutput,
    files: FilesOptions,
    vocabulary: Path | None = option("FILE", "The whole new vocabulary, one word per line.", None),
    add: Path | None = option("--add FILE", "Words to append to the vocabulary, one per line.", None),
) -> None:
    """Change the vocabulary of a model without training.

    Words of both vocabularies keep their weights bit for bit. New words start as the average word; train the model
    further to improve them.

    \b
    Example:
      elmo vocab my-model my-larger-model --add new-words.txt
    """
    path = vocabulary or add
    if path is None or (vocabulary is not None and add is not None):
        raise InputError("Give one of --vocabulary, a whole new vocabulary, and --add, words to append.")
    listed = _read_words(path)
    check_folder(output)
    from elmo.checkpoint import change_vocabulary
    from elmo.checkpoint.derived import require_vocabulary

    checkpoint = files.read(model)
    old = require_vocabulary(checkpoint)
    _check_words(path, (word if word not in old else "known" for word in listed))
    words = listed if add is None else [*old.words, *dict.fromkeys(word for word in listed if word not in old)]
    write_model(change_vocabulary(checkpoint, words), output)
    num_kept = sum(word in old for word in words)
    say(
        f"Wrote {output} (words: {len(words):,}; kept: {num_kept:,}, new: {len(words) - num_kept:,}, "
        f"left out: {len(old) - num_kept:,})."
    )


def _read_words(path: Path) -> list[str]:
    from elmo.text.vocabulary import parse_lines

    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}; give one with one word per line.")
    try:
        words = parse_lines(path.read_bytes().removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); convert it first.") from error
    if not words:
        raise InputError(f"{path} has no words; give a file with one word per line.")
    return words


def _check_words(path: Path, words: Iterable[str]) -> None:
    """Raise InputError for a list with counts, phrases or blank lines."""
    for number, word in enumerate(words, start=1):
        if word.split() != [word]:
            raise InputError(f"{path}, line {number}, is {word!r:.60}; give one word per line, and nothing else.")


def onnx(
    model: options.ModelArgument,
    output: Annotated[Path, argument("OUT", "The .onnx file to write.")],
    files: FilesOptions,
) -> None:
    """Write a model as one ONNX file, for onnxruntime in any language.

    The input is character ids of words, the output all layers of their vectors; batch size and sentence length are
    dynamic. The language model's softmax and the context layer are not part of the file. Needs the extra `onnx`.

    \b
    Example:
      elmo export onnx en-small en-small.onnx
    """
    from elmo.integrations.onnx import export_onnx

    opened = files.open_named(model)
    export_onnx(opened, output)
    size = output.stat().st_size / 1e6
    say(f"Wrote {output}: {opened.num_layers} layers of {opened.dim} dimensions, {size:,.1f} MB.")


def word2vec(
    model: options.ModelArgument,
    output: Annotated[Path, argument("OUT", "The file to write, .txt or .bin.")],
    files: FilesOptions,
    words: Path | None = option("FILE", "A file with one word per line.", None, shown="the model's vocabulary"),
    binary: bool = option("--binary", "Write the binary format instead of text.", False),
) -> None:
    """Write context-free word vectors (layer 0) in the format of word2vec.

    gensim's KeyedVectors.load_word2vec_format reads it, and so do `elmo fuse` and `elmo task train` as text.

    \b
    Example:
      elmo export word2vec en-small vectors.bin --words words.txt --binary
    """
    listed = None
    if words is not None:
        listed = [word.strip() for word in _read_words(words) if word.strip()]
        _check_words(words, listed)
    from elmo.integrations.word2vec import write_word2vec

    opened = files.open_named(model)
    num_words = write_word2vec(opened, output, listed, binary=binary)
    say(f"Wrote {output}: {num_words:,} words of {opened.config.encoder.output_dim} dimensions.")
