"""What the readers of all formats have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from elmo.tasks.readers.lines import Lines
from elmo.tasks.settings import ReadSettings


class Reader(ABC):
    """An open file of examples; `settings` read other files in the same way."""

    def __init__(self, lines: Lines, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        """With `labelled`, each example must have its target."""
        self.lines, self.family, self.settings, self.labelled = lines, family, settings, labelled
        self.tokenizer = settings.tokenizer(family)

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    def begin(self) -> str:
        """Return the text before the first example of an output in this format."""
        return ""

    @abstractmethod
    def write(self, example: Any, prediction: Any) -> str:
        """Return an example that this reader read as text, with the prediction in place of its target."""

    def end(self) -> str:
        """Return the text after the last example."""
        return ""
