"""The settings that determine the content of a vector folder, together with the model and the input."""

from dataclasses import dataclass
from typing import Literal

from elmo.config import Pooling, Settings, option
from elmo.corpus.settings import Split

Unit = Literal["words", "sentences", "spans"]
FileFormat = Literal["npy", "parquet"]
DType = Literal["float32", "float16", "int8"]

FILE_ENDINGS = (".npz", ".npy", ".jsonl", ".h5", ".hdf5", ".parquet")  # of a single file
DEFAULT_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class VectorSettings(Settings):
    """The vectors to compute, and their format.

    `unit`: one vector per word, per sentence, or per selected span: the occurrences of `only_words`, or the ranges
    of words that each row lists in the column `spans`. Rows without a span are counted, but not written.
    """

    title = "The configuration of the vectors"

    unit: Unit = "words"
    layers: str | int | tuple[float, ...] | None = None  # None: the default of the model's method
    pooling: Pooling = option(
        "auto",
        "Pooling of the word vectors: mean or max over --layers; head, the sentence head of the model; weighted, a "
        "mean with lower weights for frequent words, for models with a context layer; auto, the first of head and "
        "weighted that the model supports, or mean if neither does or --layers is given.",
    )
    normalize: bool = option(False, "Scale each vector to length 1.")
    only_words: tuple[str, ...] = option((), "Write only the vectors of this word; repeatable.", "--only WORD")
    spans: str | None = option(None, "Column with word ranges such as [[2, 4]]; one vector per range.", "--spans NAME")
    column: str | None = option(None, "Column of the text, or of a list of words.", "--column NAME")
    id_column: str | None = option(None, "Column of the row ids.", "--id-column NAME")
    split: Split = option("lines", "Unit of a sentence: a line, a detected sentence, or a document.")
    language: str | None = option(None, "Language for sentence detection.", "--language CODE")
    split_on_spaces: bool = option(False, "Split words at spaces only, instead of tokenizing.")
    file_format: FileFormat = option("npy", "Folders: format of the files.")
    dtype: DType = option("float32", "Data type of the vectors; int8 stores one scale per vector.")
    part_bytes: int = option(DEFAULT_PART_BYTES, "Folders: bytes of text per part.", above=0)

    def __post_init__(self) -> None:
        self.check()

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        selected = [bool(self.only_words), self.spans is not None]
        if self.unit == "spans" and sum(selected) != 1:
            faults.append("spans are chosen by either only_words or spans; give one of them")
        if self.unit != "spans" and any(selected):
            faults.append(f"only_words and spans choose spans, but unit is {self.unit!r}; make it 'spans'")
        if self.unit != "sentences" and (self.normalize or self.pooling not in ("auto", "mean")):
            faults.append(f"pooling and normalize are for sentence vectors, but unit is {self.unit!r}")
        if self.language is not None and self.split != "sentences":
            faults.append(f"language is {self.language!r}, but it is used only if split is 'sentences'")
        return faults
