"""What every format is: examples out of lines, and each example back to text with a prediction in it."""

from collections.abc import Iterator
from typing import Any, Protocol


class Reader(Protocol):
    """One opened input. `columns` says which part of it has which role, to be read alike another time."""

    columns: dict[str, str]

    def __iter__(self) -> Iterator[Any]:
        """Give the examples, one by one."""
        ...

    def begin(self) -> str:
        """Give what stands before the first example of an output in this format."""
        ...

    def write(self, example: Any, prediction: Any) -> str:
        """Give an example that this reader read as text, with the prediction in place of its target."""
        ...

    def end(self) -> str:
        """Give what stands after the last example."""
        ...
