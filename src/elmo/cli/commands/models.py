"""`elmo convert`, `average`, `vocab` and `export`: a model -> another form of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import FilesOptions
from elmo.errors import InputError
from elmo.files.durable import REPLACEMENT, check_parent, is_leftover

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.weights import Storage
    from elmo.text.vocabulary import Vocabulary


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HDF5_FILES = ("options.json", "weights.hdf5", "vocab.txt")
ModelOutput = Annotated[Path, argument("OUT", "Folder to write the model to.")]


@dataclass(frozen=True)
class RewriteOptions(FilesOptions):
    """How a model is read, and whether what is there already may be replaced by another form of it."""

    force: Annotated[bool, option("--force", "Replace OUT.")] = False

    def check_folder(self, source: str, output: Path, *, source_name: str = "MODEL") -> None:
        """Raise InputError for a folder that holds the source, other files, or a model if --force is not given."""
        if not output.exists():
            return
        if not output.is_dir():
            raise InputError(f"{output} is a file; give a folder to write the model to.")
        given = Path(source).expanduser()
        if given.exists() and output.samefile(given if given.is_dir() else given.parent):
            raise InputError(f"{output} is the folder of {source_name}; give another folder to write to.")
        hidden = [entry.name for entry in output.iterdir() if is_leftover(entry.name) or entry.name == REPLACEMENT]
        names = sorted(entry.name for entry in output.iterdir() if entry.name not in hidden)
        if names and not self.force:
            raise InputError(
                f"{output} is not empty (it has {_shorten(names)}); give a new folder, or --force to replace the "
                "model in it."
            )
        # Only a folder with nothing but the files of a model, in either format, is ever replaced.
        if others := [name for name in names if name not in _list_replaced()]:
            raise InputError(
                f"{output} has other files than a model ({_shorten(others)}), so --force does not replace it; "
                "give a new folder."
            )

    def check_file(self, output: Path) -> None:
        """Raise InputError if the file exists and --force is not given."""
        if output.exists() and not self.force:
            raise InputError(f"{output} exists already; give another name, or --force to replace it.")


def write_model(checkpoint: "Checkpoint", output: Path, storage: str = "float32") -> None:
    """Write a model folder in place of whatever model `output` holds."""
    from elmo.checkpoint.folder import write_folder

    check_parent(output)
    write_folder(checkpoint, output, storage=cast("Storage", storage), replaces=_list_replaced())


def _list_replaced() -> tuple[str, ...]:
    """Return the names of all files that a model of either format may have."""
    from elmo.checkpoint.folder import CARD_FILE, FILES

    return (*FILES, CARD_FILE, *_HDF5_FILES)


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def convert(
    source: Annotated[str, argument("IN", options.MODEL_HELP)],
    output: ModelOutput,
    rewrite: RewriteOptions,
    to: Literal["elmo", "hdf5"] = option(
        "",
        "Format to write. elmo: the folder of this package. hdf5: options.json, weights.hdf5 and "
        "vocab.txt, for bilm-tf and AllenNLP.",
        "elmo",
    ),
    storage: options.StoredAs | None = option(
        "",
        "Storage of the weights: float16 takes half the bytes of float32, compact also stores the "
        "softmax in 8 bits. Vectors change by the rounding.",
        None,
        shown="as IN is stored",
    ),
) -> None:
    """Write a model in another format; vectors stay the same.

    \b
    Example:
      elmo convert elmo_weights.hdf5 my-model
    """
    if to == "hdf5" and storage not in (None, "float32"):
        raise InputError(f"--storage is {storage}, but HDF5 models are stored in float32; leave it out.")
    rewrite.check_folder(source, output, source_name="IN")
    checkpoint = rewrite.read(source)
    if to == "elmo":
        write_model(checkpoint, output, storage or checkpoint.storage)
    else:
        from elmo.checkpoint.formats.hdf5 import write_hdf5

        check_parent(output)
        write_hdf5(checkpoint, output, replaces=_list_replaced())
    print(f"Wrote {output}: {', '.join(sorted(file.name for file in output.iterdir()))}.")
    for loss in _losses(checkpoint) if to == "hdf5" else []:
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


def average(
    models: Annotated[list[str], argument("MODEL", "Two or more models, such as checkpoints of one run.")],
    rewrite: RewriteOptions,
    output: Path = option("--output -o OUT", "Folder to write the model to."),
    share: list[float] | None = option(
        "", "Share of each model, in the order of the models; repeatable.", None, shown="equal shares"
    ),
) -> None:
    """Average the weights of related models.

    The models must be fine-tuned from a common ancestor. Their mean is often better than each of them, as for the
    last checkpoints of a run, or a model before and after it learned from a teacher.

    \b
    Example:
      elmo average run/checkpoints/update-00009000 run/checkpoints/update-00010000 -o mean
    """
    for model in models:
        rewrite.check_folder(model, output)
    from elmo.checkpoint import average as average_checkpoints

    checkpoints = [rewrite.read(name) for name in models]
    write_model(average_checkpoints(checkpoints, share), output)
    print(f"Wrote {output}, the mean of {len(models)} models.")
    if any(checkpoint.context for checkpoint in checkpoints):
        print("It has no context layer, because those of the models do not fit it; add one with elmo fuse.")


def vocab(
    model: options.ModelArgument,
    output: ModelOutput,
    rewrite: RewriteOptions,
    vocabulary: Path | None = option(
        "--vocabulary FILE", "The whole new vocabulary, one word per line, with special words.", None
    ),
    add: Path | None = option("--add FILE", "Words to append to the vocabulary, one per line.", None),
) -> None:
    """Change the vocabulary of a model without training.

    Words of both vocabularies keep their weights bit for bit. New words start as the average word; train the model
    further to improve them.

    \b
    Example:
      elmo vocab my-model my-larger-model --add new-words.txt
    """
    if vocabulary is not None and add is not None:
        raise InputError(
            "--vocabulary and --add were both given; choose one: a whole new vocabulary, or words to add."
        )
    path = vocabulary or add
    if path is None:
        raise InputError("No words were given; give a file with --vocabulary or --add.")
    given = _read_words(path, "--vocabulary" if add is None else "--add")
    rewrite.check_folder(model, output)
    from elmo.checkpoint import change_vocabulary
    from elmo.checkpoint.derived import require_vocabulary

    checkpoint = rewrite.read(model)
    old = require_vocabulary(checkpoint)
    _check_words(path, given, old)
    words = given if add is None else [*old.words, *dict.fromkeys(word for word in given if word not in old)]
    write_model(change_vocabulary(checkpoint, words), output)
    num_kept = sum(word in old for word in words)
    print(
        f"Wrote {output} (words: {len(words):,}; kept: {num_kept:,}, new: {len(words) - num_kept:,}, "
        f"left out: {len(old) - num_kept:,})."
    )


def _read_words(path: Path, option: str) -> list[str]:
    from elmo.text.vocabulary import parse_lines

    if not path.is_file():
        raise InputError(f"{option} is {str(path)!r}, which is not a file; give a file with one word per line.")
    content = path.read_bytes().removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    try:
        words = parse_lines(content)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 (byte {error.start}); convert it first, for example with iconv."
        ) from error
    if not words:
        raise InputError(f"{option} {path} holds no words; give a file with one word per line.")
    return words


def _check_words(path: Path, words: list[str], old: "Vocabulary") -> None:
    """Raise InputError for a list with counts or blank lines: a new word must stand alone on its line."""
    for number, word in enumerate(words, start=1):
        if word.split() != [word] and word not in old:
            raise InputError(
                f"{path}, line {number}, is {word!r:.60}; one word per line was expected, nothing else."
            )


def onnx(
    model: options.ModelArgument,
    output: Annotated[Path, argument("OUT", "The .onnx file to write.")],
    rewrite: RewriteOptions,
) -> None:
    """Write a model as one ONNX file, for onnxruntime in any language.

    Character ids of words enter, all layers of their vectors leave; batch and sentence length are free. The
    language model's softmax and the context layer are not part of the file. Needs the extra `onnx`.

    \b
    Example:
      elmo export onnx en-small en-small.onnx
    """
    rewrite.check_file(output)
    from elmo.integrations.onnx import export_onnx

    opened = rewrite.open(model)
    export_onnx(opened, output)
    size = output.stat().st_size / 1e6
    print(f"Wrote {output}: {opened.num_layers} layers of {opened.dim} dimensions, {size:,.1f} MB.")


def word2vec(
    model: options.ModelArgument,
    output: Annotated[Path, argument("OUT", "The file to write, .txt or .bin.")],
    rewrite: RewriteOptions,
    words: Path | None = option(
        "--words FILE", "A text file in UTF-8 with one word per line.", None, shown="the model's vocabulary"
    ),
    binary: bool = option("--binary", "Write numbers as bytes, not as text.", False),
) -> None:
    """Write the vectors that words have without a sentence (layer 0), in the format of word2vec.

    gensim's KeyedVectors.load_word2vec_format reads it, and so do `elmo fuse` and `elmo task train` as text.

    \b
    Example:
      elmo export word2vec en-small vectors.bin --words words.txt --binary
    """
    rewrite.check_file(output)
    listed = None if words is None else _read_words_to_export(words)
    from elmo.integrations.word2vec import write_word2vec

    opened = rewrite.open(model)
    num_words = write_word2vec(opened, output, listed, binary=binary)
    print(f"Wrote {output}: {num_words:,} words of {opened.config.encoder.output_dim} dimensions.")


def _read_words_to_export(path: Path) -> list[str]:
    words = [word.strip() for word in _read_words(path, "--words")]
    for number, word in enumerate(words, start=1):
        if len(word.split()) > 1:
            raise InputError(
                f"{path}, line {number}: {word!r:.60} has white space, which separates words in a word2vec file; "
                "give one word per line, phrases with underscores."
            )
    return [word for word in words if word]
