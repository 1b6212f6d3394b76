"""word2vec: the static vectors of words (layer 0) -> a file that gensim's KeyedVectors and other tools read."""

from collections.abc import Sequence
from pathlib import Path

from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.model import Elmo

WORDS_AT_ONCE = 8192


def write_word2vec(model: Elmo, path: str | Path, words: Sequence[str] | None = None, *, binary: bool = False) -> int:
    """Write a file with the vector (D) of each word without a sentence, and return the number of words.

    Without `words`, those of the model's vocabulary, except <S>, </S>, <UNK> and words with white space. Words
    must not hold white space, which separates words and numbers in this format; repeated words are written once.
    """
    chosen = _vocabulary_words(model) if words is None else list(dict.fromkeys(words))
    if not chosen:
        raise InputError("There are no words to write; give a list of at least one word.")
    for position, word in enumerate(chosen):
        if not isinstance(word, str) or not _is_writable(word):
            raise InputError(
                f"Word {position} is {word!r:.60}; a word2vec file holds words without white space, so write "
                "phrases with underscores."
            )
    with output_file(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(f"{len(chosen)} {model.config.encoder.output_dim}\n".encode())
        for start in range(0, len(chosen), WORDS_AT_ONCE):
            part = chosen[start : start + WORDS_AT_ONCE]
            for word, vector in zip(part, model.word_vectors(part), strict=True):
                name = word.encode("utf-8", "replace") + b" "
                numbers = vector.astype("<f4").tobytes() if binary else " ".join(map(str, vector)).encode()
                file.write(name + numbers + b"\n")
    return len(chosen)


def _is_writable(word: str) -> bool:
    return bool(word) and not any(character.isspace() for character in word)


def _vocabulary_words(model: Elmo) -> list[str]:
    vocabulary = model.vocabulary
    if vocabulary is None:
        raise InputError("This model has no vocabulary; give a list of words.")
    special = {vocabulary.begin, vocabulary.end, vocabulary.unknown}
    return [word for word in dict.fromkeys(vocabulary.words) if word not in special and _is_writable(word)]
