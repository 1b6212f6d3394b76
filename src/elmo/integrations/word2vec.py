"""word2vec: the context-independent vectors of words (layer 0) -> a file for gensim's KeyedVectors and other tools."""

from collections.abc import Sequence
from pathlib import Path

from elmo.errors import InputError
from elmo.files.durable import output_file
from elmo.model import Elmo

BATCH_WORDS = 8192


def write_word2vec(model: Elmo, path: str | Path, words: Sequence[str] | None = None, *, binary: bool = False) -> int:
    """Write a file with the context-independent vector (D,) of each word, and return the number of words.

    `words` defaults to the model's vocabulary without special words and words with whitespace. In this format,
    whitespace separates words and numbers, so a given word with whitespace is an error.
    """
    if words is None:
        vocabulary = model.vocabulary
        if vocabulary is None:
            raise InputError("This model has no vocabulary; give a list of words.")
        special = (vocabulary.begin, vocabulary.end, vocabulary.unknown)
        words = [word for word in vocabulary.words if word.split() == [word] and word not in special]
    words = list(dict.fromkeys(words))
    if not words:
        raise InputError("There are no words to write; give a list of at least one word.")
    if (invalid := next((word for word in words if word.split() != [word]), None)) is not None:
        raise InputError(f"The word {invalid!r:.60} is empty or has whitespace; join phrases with underscores.")
    with output_file(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(f"{len(words)} {model.config.encoder.output_dim}\n".encode())
        for start in range(0, len(words), BATCH_WORDS):
            batch = words[start : start + BATCH_WORDS]
            for word, vector in zip(batch, model.word_vectors(batch), strict=True):
                numbers = vector.astype("<f4").tobytes() if binary else " ".join(map(str, vector)).encode()
                file.write(word.encode("utf-8", "replace") + b" " + numbers + b"\n")
    return len(words)
