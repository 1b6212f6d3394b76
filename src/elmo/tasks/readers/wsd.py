"""Word senses as the unified evaluation framework keeps them: X.data.xml with X.gold.key.txt beside it.

Predictions are written as a key file, which is what its scorer reads.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from elmo.errors import InputError
from elmo.tasks.examples import Place, SenseSentence, SenseTarget
from elmo.tasks.readers.lines import STDIN, Lines

_COMPRESSIONS = ("", ".xz", ".gz", ".bz2")
_PARTS_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


class WsdReader:
    """Sentences with the words whose senses are asked for, and their keys if `labelled`."""

    def __init__(self, lines: Lines, *, labelled: bool) -> None:
        self._lines, self._labelled = lines, labelled
        self.columns: dict[str, str] = {}
        self._keys = _read_keys(lines.path, labelled=labelled)

    def __iter__(self) -> Iterator[SenseSentence]:
        parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("start", "end"))
        first = 1
        try:
            for line in self._lines:
                parser.feed(line + "\n")
                for event, element in cast(Iterator[tuple[str, ElementTree.Element]], parser.read_events()):
                    if event == "start" and element.tag == "sentence":
                        first = self._lines.number
                    elif event == "end" and element.tag == "sentence":
                        yield self._sentence(element, Place(self._lines.name, first))
                        element.clear()
            parser.close()
        except ElementTree.ParseError as error:
            raise self._lines.fail(f"not well-formed XML ({error}).") from error

    def begin(self) -> str:
        """Give nothing: key files have no header."""
        return ""

    def write(self, example: SenseSentence, prediction: Any) -> str:
        """Give one line a target: its id and the predicted key, or the id alone if there is none."""
        lines = (
            f"{target.id} {key or ''}".strip()
            for target, key in zip(example.targets, prediction.keys, strict=True)
        )
        return "".join(f"{line}\n" for line in lines)

    def end(self) -> str:
        """Give nothing."""
        return ""

    def _sentence(self, element: ElementTree.Element, place: Place) -> SenseSentence:
        words: list[str] = []
        targets: list[SenseTarget] = []
        for part in element:
            text = (part.text or "").split()
            if part.tag == "instance":
                targets.append(self._target(part, (len(words), len(words) + len(text)), place))
            elif part.tag != "wf":
                raise InputError(f"{place}: <{part.tag}> in a sentence; <wf> or <instance> was expected.")
            words += text
        return SenseSentence(tuple(words), tuple(targets), place)

    def _target(self, part: ElementTree.Element, span: tuple[int, int], place: Place) -> SenseTarget:
        identifier = part.get("id")
        if identifier is None or part.get("lemma") is None or part.get("pos") is None:
            raise InputError(f"{place}: an <instance> lacks id, lemma or pos.")
        if span[0] == span[1]:
            raise InputError(f"{place}: the <instance> {identifier} has no words.")
        keys = self._keys.get(identifier)
        if self._labelled and keys is None:
            raise InputError(f"{place}: the key file has no line for {identifier}.")
        return SenseTarget(identifier, span, part.get("lemma", ""), part.get("pos", ""), keys)


def read_first_senses(path: str | Path) -> dict[str, str]:
    """Give the first sense of each lemma and part of speech in WordNet's index.sense, as in bank#NOUN."""
    found: dict[str, str] = {}
    lines = Lines(path)
    for line in lines:
        cells = line.split()
        lemma, _, rest = (cells or [""])[0].partition("%")
        if len(cells) != 4 or rest[:1] not in _PARTS_OF_SPEECH or not cells[2].isdigit():
            raise lines.fail(f"{line!r:.60} is not a line of WordNet's index.sense: key, offset, number, count.")
        if cells[2] == "1":
            found[f"{lemma.lower()}#{_PARTS_OF_SPEECH[rest[0]]}"] = cells[0]
    return found


def _read_keys(path: str, *, labelled: bool) -> dict[str, tuple[str, ...]]:
    found = None if path == STDIN else _find_key_file(Path(path))
    if found is None:
        if labelled:
            raise InputError(
                f"{path} has no key file; its senses were expected in X.gold.key.txt beside X.data.xml."
            )
        return {}
    keys: dict[str, tuple[str, ...]] = {}
    lines = Lines(found)
    for line in lines:
        identifier, *senses = line.split() or [""]
        if identifier and not senses:
            raise lines.fail(f"{identifier} has no sense key behind it.")
        if identifier:
            keys[identifier] = tuple(senses)
    return keys


def _find_key_file(path: Path) -> Path | None:
    name = path.name
    for compression in _COMPRESSIONS[1:]:
        name = name.removesuffix(compression)
    stem = name.removesuffix(".xml").removesuffix(".data")
    names = (path.with_name(f"{stem}.gold.key.txt{compression}") for compression in _COMPRESSIONS)
    return next((name for name in names if name.exists()), None)
