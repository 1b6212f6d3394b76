"""`elmo convert`, `average`, `vocab` and `export`: a model -> another form of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.options import FilesOptions
from elmo.cli.terminal import say
from elmo.errors import InputError
from elmo.files.durable import REPLACEMENT, check_parent, is_leftover
from elmo.language import translate

if TYPE_CHECKING:
    from elmo.checkpoint.checkpoint import Checkpoint
    from elmo.checkpoint.weights import Storage

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STORAGE = (
    "Type of the stored weights: float16 needs half the space of float32, compact also stores the softmax as int8. "
    "Rounding changes the vectors slightly."
)
_HDF5_FILES = ("options.json", "weights.hdf5", "vocab.txt")
ModelOutput = Annotated[Path, argument("OUT", "Folder to write the model to.")]


@dataclass(frozen=True)
class RewriteOptions(FilesOptions):
    """How a model is read, and whether what is there already may be replaced by another form of it."""

    force: Annotated[bool, option("--force", "Replace OUT.")] = False

    def check_folder(self, source: str, output: Path) -> None:
        """Raise InputError unless the folder is new or empty, or has another model and --force is given."""
        if not output.exists():
            return
        path = Path(source).expanduser()
        if path.exists() and output.samefile(path if path.is_dir() else path.parent):
            raise InputError(f"{output} is the folder of the model; give another folder to write to.")
        if not output.is_dir():
            raise InputError(f"{output} is a file; give a folder to write the model to.")
        hidden = [entry.name for entry in output.iterdir() if is_leftover(entry.name) or entry.name == REPLACEMENT]
        names = sorted(entry.name for entry in output.iterdir() if entry.name not in hidden)
        # Only a folder with nothing but the files of a model, in either format, is ever replaced.
        others = [name for name in names if name not in _list_replaced()]
        if others or (names and not self.force):
            advice = "give a new folder" if others else "give a new folder, or --force to replace the model in it"
            shown = ", ".join((others or names)[:3])
            raise InputError(f"{output} is not empty: it has {shown}; {translate(advice)}.")

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


def convert(
    source: Annotated[str, argument("IN", options.MODEL_HELP)],
    output: ModelOutput,
    rewrite: RewriteOptions,
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
    rewrite.check_folder(source, output)
    checkpoint = rewrite.read(source)
    if to == "elmo":
        write_model(checkpoint, output, storage or checkpoint.storage)
    else:
        from elmo.checkpoint.formats.hdf5 import write_hdf5

        check_parent(output)
        write_hdf5(checkpoint, output, replaces=_list_replaced())
    say(f"Wrote {output}: {', '.join(sorted(file.name for file in output.iterdir()))}.")
    if to == "hdf5" and (lost := _list_lost(checkpoint)):
        say(f"HDF5 has no place for these, so they were not written: {', '.join(lost)}.")


def _list_lost(checkpoint: "Checkpoint") -> list[str]:
    """Return the names of what an HDF5 file cannot hold of a model."""
    from elmo.config import ModelConfig

    config, usual = checkpoint.config, ModelConfig()
    names = ("begin_word", "end_word", "unknown_word")
    lost = [name for name in names if getattr(config, name) != getattr(usual, name)]
    if config.words and config.words.max_word_length:
        lost.append("words.max_word_length")
    optional = {"softmax": config.softmax, "context": checkpoint.context, "sentence": checkpoint.sentence}
    return [*lost, *(name for name, value in optional.items() if value)]


def average(
    models: Annotated[list[str], argument("MODEL", "Two or more models, such as checkpoints of one run.")],
    rewrite: RewriteOptions,
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
    for model in models:
        rewrite.check_folder(model, output)
    from elmo.checkpoint import average as average_checkpoints

    checkpoints = [rewrite.read(name) for name in models]
    write_model(average_checkpoints(checkpoints, share), output)
    say(f"Wrote {output}, the mean of {len(models)} models.")
    if any(checkpoint.context for checkpoint in checkpoints):
        say("It has no context layer, because those of the models do not fit it; add one with elmo fuse.")


def vocab(
    model: options.ModelArgument,
    output: ModelOutput,
    rewrite: RewriteOptions,
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
    rewrite.check_folder(model, output)
    from elmo.checkpoint import change_vocabulary
    from elmo.checkpoint.derived import require_vocabulary

    checkpoint = rewrite.read(model)
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
    rewrite: RewriteOptions,
) -> None:
    """Write a model as one ONNX file, for onnxruntime in any language.

    The input is character ids of words, the output all layers of their vectors; batch size and sentence length are
    dynamic. The language model's softmax and the context layer are not part of the file. Needs the extra `onnx`.

    \b
    Example:
      elmo export onnx en-small en-small.onnx
    """
    rewrite.check_file(output)
    from elmo.integrations.onnx import export_onnx

    opened = rewrite.open(model)
    export_onnx(opened, output)
    size = output.stat().st_size / 1e6
    say(f"Wrote {output}: {opened.num_layers} layers of {opened.dim} dimensions, {size:,.1f} MB.")


def word2vec(
    model: options.ModelArgument,
    output: Annotated[Path, argument("OUT", "The file to write, .txt or .bin.")],
    rewrite: RewriteOptions,
    words: Path | None = option("FILE", "A file with one word per line.", None, shown="the model's vocabulary"),
    binary: bool = option("--binary", "Write the binary format instead of text.", False),
) -> None:
    """Write context-free word vectors (layer 0) in the format of word2vec.

    gensim's KeyedVectors.load_word2vec_format reads it, and so do `elmo fuse` and `elmo task train` as text.

    \b
    Example:
      elmo export word2vec en-small vectors.bin --words words.txt --binary
    """
    rewrite.check_file(output)
    listed = None
    if words is not None:
        listed = [word.strip() for word in _read_words(words) if word.strip()]
        _check_words(words, listed)
    from elmo.integrations.word2vec import write_word2vec

    opened = rewrite.open(model)
    num_words = write_word2vec(opened, output, listed, binary=binary)
    say(f"Wrote {output}: {num_words:,} words of {opened.config.encoder.output_dim} dimensions.")
