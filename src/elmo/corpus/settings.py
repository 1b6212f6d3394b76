"""The settings for preparing a corpus, frozen and validated, and the vocabulary file that they may name."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmo.config import Script, Settings, TokenizationConfig, number, option
from elmo.errors import InputError
from elmo.text.tokenize import split_sentences

Split = Literal["sentences", "lines", "none"]
DEFAULT_VOCABULARY_SIZE, SHARD_BYTES = 40_000, 8 << 20
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")


@dataclass(frozen=True)
class TextSettings(Settings):
    """The rules that split running text into sentences and words."""

    title = "The configuration of the text"

    field: str = option("text", "Column of the text in .jsonl and .parquet files.", "--column NAME")
    split: Split = option(
        "sentences",
        "sentences: every line is a paragraph, split into sentences. lines: every line is a sentence. none: a "
        "document (lines up to a blank one, a record or a row) is one sequence.",
    )
    language: str | None = option(None, "Language for sentence detection.", "--language CODE")
    split_on_spaces: bool = option(False, "Split words at spaces only, instead of tokenizing.")
    characters: tuple[Script, ...] = option(
        (), "Script of single letters, such as Han; repeatable.", "--characters SCRIPT"
    )

    def __post_init__(self) -> None:
        self.check()

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        if self.language is not None and self.split != "sentences":
            faults.append(f"language is {self.language!r}, but it is used only if split is sentences")
        if self.language is not None:
            try:
                split_sentences("", language=self.language)
            except InputError as error:
                faults.append(str(error).rstrip("."))
        if self.characters and self.split_on_spaces:
            faults.append("characters and split_on_spaces were given together; each defines the tokens, so choose one")
        return faults

    @property
    def tokenization(self) -> TokenizationConfig:
        """The same rules for splitting words, in the form of a model's configuration."""
        if self.characters:
            return TokenizationConfig("characters", self.characters)
        return TokenizationConfig(split_on_spaces=self.split_on_spaces)


@dataclass(frozen=True)
class PrepareSettings(TextSettings):
    """The settings that determine a prepared corpus, together with its text."""

    vocabulary_size: int | None = option(None, "Number of words that the softmax predicts.", above=len(SPECIAL_WORDS))
    min_count: int | None = option(None, "Instead of a size: keep the words that occur at least N times.", above=0)
    vocabulary: Path | None = option(
        None, "Instead of a size: these words, with <S>, </S> and <UNK>.", "--vocabulary FILE"
    )
    shard_bytes: int = number(SHARD_BYTES, above=0)  # uncompressed text per shard

    def faults(self) -> list[str]:
        """Return the faults of these settings, one phrase each."""
        faults = super().faults()
        requested = [name for name in ("vocabulary_size", "min_count", "vocabulary") if getattr(self, name) is not None]
        if len(requested) > 1:
            faults.append(f"{' and '.join(requested)} were given together; each defines the vocabulary, so choose one")
        return faults

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for a manifest: with defaults, and the hash of the vocabulary file."""
        values = super().to_dict()
        if not self.characters:
            del values["characters"]  # so that a corpus of words has the settings that version 0.2 wrote
        if self.split == "sentences":
            values["language"] = self.language or "en"
        if self.vocabulary is not None:
            values["vocabulary"] = "sha256:" + hashlib.sha256(_read(self.vocabulary)).hexdigest()
        elif self.min_count is None:
            values["vocabulary_size"] = self.vocabulary_size or DEFAULT_VOCABULARY_SIZE
        return values


def read_vocabulary(path: Path) -> list[str]:
    """Read a list of words, one per line; raise InputError if a special word is missing or a word is repeated."""
    from elmo.text.vocabulary import Vocabulary, parse_lines  # imports NumPy, which the command line does not need

    try:
        words = parse_lines(_read(path))
    except UnicodeDecodeError as error:
        raise InputError(f"The vocabulary {path} is not UTF-8 ({error}); convert it first.") from error
    if missing := Vocabulary(words).missing_special_words():
        raise InputError(f"The vocabulary {path} does not list {', '.join(missing)}; add a line for each.")
    seen: set[str] = set()
    for line_number, word in enumerate(words, start=1):
        if word in seen:
            raise InputError(f"The vocabulary {path} lists {word!r} again in line {line_number}; remove that line.")
        seen.add(word)
    return words


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"The vocabulary {path} cannot be read: {error.strerror}.") from error
