"""`elmo convert`, `vocab` and `export`: write a model in another form."""

from collections.abc import Container
from pathlib import Path
from typing import Annotated, Literal

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import FilesOptions
from elmo.cli.terminal import say
from elmo.errors import InputError
from elmo.files.durable import check_parent, is_vacant

ModelOutput = Annotated[Path, argument("OUT", "Folder to write the model to.")]


def check_folder(output: Path) -> None:
    """Raise InputError unless a model can be written to this folder."""
    check_parent(output)
    if not is_vacant(output):
        raise InputError(f"{output} exists and is not an empty folder; give a new one.")


def convert(
    source: Annotated[str, argument("IN", options.MODEL_HELP)],
    output: ModelOutput,
    files: FilesOptions,
    to: Literal["elmo", "hdf5"] = option("", "Our folder, or the files of bilm-tf and AllenNLP.", "elmo"),
    storage: options.Storage = None,
) -> None:
    """Write a model in another format; its vectors do not change.

    \b
    Example:
      elmo convert elmo_weights.hdf5 my-model
    """
    if to == "hdf5" and storage not in (None, "float32"):
        raise InputError(f"--storage is {storage}, but HDF5 models are stored in float32; leave it out.")
    check_folder(output)
    from elmo.checkpoint.folder import write_folder
    from elmo.checkpoint.formats.hdf5 import write_hdf5

    checkpoint = files.read(source)
    if to == "elmo":
        write_folder(checkpoint, output, storage=storage or checkpoint.storage)
    else:
        write_hdf5(checkpoint, output)
    say(f"Wrote {output}: {', '.join(sorted(file.name for file in output.iterdir()))}.")
    optional = {"softmax": checkpoint.config.softmax, "context": checkpoint.context, "sentence": checkpoint.sentence}
    lost = [name for name, value in optional.items() if value]
    if to == "hdf5" and lost:
        say(f"HDF5 has no place for these, so they were not written: {', '.join(lost)}.")


def vocab(
    model: options.ModelArgument,
    output: ModelOutput,
    files: FilesOptions,
    vocabulary: Path | None = option("FILE", "The complete new vocabulary, one word per line.", None),
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
    if path is None or (vocabulary and add):
        raise InputError("Give either --vocabulary, a complete new vocabulary, or --add, words to append.")
    check_folder(output)
    from elmo.checkpoint import change_vocabulary
    from elmo.checkpoint.folder import write_folder
    from elmo.checkpoint.vocabulary import require_vocabulary

    checkpoint = files.read(model)
    old = require_vocabulary(checkpoint)
    listed = _read_words(path, known=old)
    words = listed if add is None else [*old.words, *dict.fromkeys(word for word in listed if word not in old)]
    write_folder(change_vocabulary(checkpoint, words), output)
    num_kept = sum(word in old for word in words)
    say(
        f"Wrote {output} (words: {len(words):,}; kept: {num_kept:,}, new: {len(words) - num_kept:,}, "
        f"left out: {len(old) - num_kept:,})."
    )


def _read_words(path: Path, known: Container[str] = ()) -> list[str]:
    """Read one word per line; InputError for counts, phrases or blank lines that are not `known` words."""
    from elmo.tasks.readers.reader import Lines

    lines = Lines(path)
    words = []
    for word in lines:
        if word.split() != [word] and word not in known:
            raise lines.fail(f"{word!r:.60} is not one word; give one word per line, and nothing else.")
        words.append(word)
    if not words:
        raise InputError(f"{path} has no words; give a file with one word per line.")
    return words


def onnx(
    model: options.ModelArgument,
    output: Annotated[Path, argument("OUT", "The .onnx file to write.")],
    files: FilesOptions,
) -> None:
    """Write a model as one ONNX file, for onnxruntime in any language.

    The input is the character ids of words; the output is all layers of their vectors. Batch size and sentence length
    are dynamic. The file does not contain the softmax and the context layer. Needs the extra `onnx`.

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

    gensim's KeyedVectors.load_word2vec_format reads the file; `elmo fuse` and `elmo task train` read the text format.

    \b
    Example:
      elmo export word2vec en-small vectors.bin --words words.txt --binary
    """
    listed = None if words is None else _read_words(words)
    from elmo.integrations.word2vec import write_word2vec

    opened = files.open_named(model)
    num_words = write_word2vec(opened, output, listed, binary=binary)
    say(f"Wrote {output}: {num_words:,} words of {opened.config.encoder.output_dim} dimensions.")
