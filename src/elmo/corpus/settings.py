"""How raw text is to become a corpus: a frozen, validated dataclass. Nothing is read here but a vocabulary."""

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from elmo.errors import ConfigError, InputError
from elmo.text.sentences import split_sentences
from elmo.text.vocabulary import Vocabulary, parse_lines

Split = Literal["sentences", "lines", "none"]
DEFAULT_VOCABULARY_SIZE = 40_000
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")


@dataclass(frozen=True)
class PrepareSettings:
    """What decides the prepared corpus, besides the text itself."""

    field: str = "text"  # of a JSON record or a parquet row
    split: Split = "sentences"  # lines -> sentences; each line is one; or none: each document is one sequence
    language: str | None = None  # whose rules split the sentences; English if not given
    split_on_spaces: bool = False  # take what stands between spaces as the words
    vocabulary_size: int | None = None  # special words included; 40,000 if nothing says otherwise
    min_count: int | None = None  # instead: every word that occurs this often
    vocabulary: Path | None = None  # instead: a file with one word a line
    shard_bytes: int = 8 << 20  # text in one shard, before any compression

    def __post_init__(self) -> None:
        if faults := self._faults():
            raise ConfigError("The corpus cannot be prepared so: " + "; ".join(faults) + ".")

    def _faults(self) -> list[str]:
        found = []
        if self.split not in get_args(Split):
            found.append(f"split is {self.split!r}; it must be one of {', '.join(get_args(Split))}")
        elif self.language is not None and self.split != "sentences":
            found.append(f"language is {self.language!r}, but it has a meaning only where split is sentences")
        if self.language is not None:
            try:
                split_sentences("", language=self.language)
            except InputError as error:
                found.append(str(error).rstrip("."))
        if not self.field:
            found.append("field is empty; name the field of a record that holds the text")
        given = [
            name for name in ("vocabulary_size", "min_count", "vocabulary") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            found.append(f"{' and '.join(given)} were given together; each decides the vocabulary, so choose one")
        if self.vocabulary_size is not None and self.vocabulary_size <= len(SPECIAL_WORDS):
            found.append(
                f"vocabulary_size is {self.vocabulary_size}; it must be above {len(SPECIAL_WORDS)}, "
                f"the number of special words ({', '.join(SPECIAL_WORDS)})"
            )
        for name in ("min_count", "shard_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                found.append(f"{name} is {value}; it must be above 0")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of a manifest: defaults filled in, the vocabulary file by its content."""
        values = dataclasses.asdict(self)
        if self.split == "sentences":
            values["language"] = self.language or "en"
        if self.vocabulary is not None:
            values["vocabulary"] = "sha256:" + hashlib.sha256(_read(self.vocabulary)).hexdigest()
        elif self.min_count is None:
            values["vocabulary_size"] = self.vocabulary_size or DEFAULT_VOCABULARY_SIZE
        return values


def read_vocabulary(path: Path) -> list[str]:
    """Read a list of words, one a line; InputError if a special word is missing or a word is there twice."""
    try:
        words = parse_lines(_read(path))
    except UnicodeDecodeError as error:
        raise InputError(f"The vocabulary {path} is not UTF-8 ({error}); convert it first.") from error
    if missing := Vocabulary(words).missing_special_words():
        raise InputError(f"The vocabulary {path} does not list {', '.join(missing)}; add a line for each.")
    seen: set[str] = set()
    for number, word in enumerate(words, start=1):
        if word in seen:
            raise InputError(f"The vocabulary {path} lists {word!r} again in line {number}; remove that line.")
        seen.add(word)
    return words


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"The vocabulary {path} cannot be read: {error.strerror}.") from error
