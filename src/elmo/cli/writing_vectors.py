"""What `embed` and `encode` have in common: results, sentence by sentence -> the output, with a bar."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from elmo.cli.row_input import Sentence
from elmo.cli.vector_files import Writer, open_output
from elmo.progress import progress_bar

if TYPE_CHECKING:
    from elmo.model import Array

Result: TypeAlias = "tuple[Sentence, list[str], Array]"  # what was read, its words, its vectors


def write_vectors(
    results: Iterable[Result],
    path: Path | None,
    writers: Mapping[str, Writer],
    *,
    name: str,
    num_bytes: int | None,
) -> None:
    """Write all results; `name` is what JSON calls the vectors, `num_bytes` the size of the input if known."""
    num_sentences = num_words = 0
    with (
        progress_bar(unit="sentences", num_bytes=num_bytes, prints=path is None) as advance,
        open_output(path, writers, name=name) as add,
    ):
        for sentence, words, array in results:
            add(words, array)
            advance(sentence.num_bytes)
            num_sentences += 1
            num_words += len(words)
    if path is not None:
        print(f"Wrote {path} (sentences: {num_sentences:,}, words: {num_words:,}).")
