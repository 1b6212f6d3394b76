"""Readers for the formats of well-known data sets: sentiment trees, SemEval-2010 relations, SQuAD, and WSD."""

import glob
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from elmo.errors import InputError
from elmo.files.sources import STDIN, Place
from elmo.tasks.examples import LabelledText, MarkedPair, Question, SenseSentence, SenseTarget, Span
from elmo.tasks.readers.reader import Lines, Reader
from elmo.tasks.settings import ReadSettings

_TREE_TOKEN = re.compile(r"\(\s*[^\s()]+|\)|[^()]+|\(")  # a bracket with its label, or words
_TREE_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_NUMBERED = re.compile(r'(\d+)\t"?(.*?)"?\s*$')
_PARTS_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


class TreeReader(Reader):
    """Texts as trees, one per line: (3 (2 It) (4 (2 's) (4 lovely))). The root has the label of the text."""

    def __iter__(self) -> Iterator[LabelledText]:
        for line in self.lines:
            if line.strip():
                words, phrases = self._parse(line.strip())
                yield LabelledText(words, phrases[-1][1], tuple(phrases), place=self.lines.place(), record=line.strip())

    def write(self, predicted: Iterable[tuple[LabelledText, Any]]) -> Iterator[str]:
        """Yield the trees with the predicted labels at their roots."""
        for example, prediction in predicted:
            _, rest = re.split(r"^\(\s*[^\s()]+", example.record)
            yield f"({prediction.label}{rest}\n"

    def _parse(self, line: str) -> tuple[tuple[str, ...], list[tuple[Span, str]]]:
        """Return the words of a tree and the span and label of each phrase, the whole text last."""
        words: list[str] = []
        phrases: list[tuple[Span, str]] = []
        open_phrases: list[tuple[int, str]] = []
        for token in _TREE_TOKEN.findall(line):
            if token == ")" and open_phrases:
                start, label = open_phrases.pop()
                phrases.append(((start, len(words)), label))
            elif token[0] == "(":
                open_phrases.append((len(words), token[1:].strip()))
            else:
                words += [_TREE_ESCAPES.get(word, word) for word in token.split()]
        is_complete = not open_phrases and phrases and phrases[-1][0] == (0, len(words))
        if not is_complete or not all(label and start < end for (start, end), label in phrases):
            raise self.lines.fail(f"{line!r:.60} is not a tree such as (3 (2 It) (4 works)), one per line.")
        return tuple(words), phrases


class SemevalReader(Reader):
    """Relations: a number and a sentence with <e1> and <e2>, the relation, a comment, an empty line."""

    def __iter__(self) -> Iterator[MarkedPair]:
        block: list[str] = []
        for line in self.lines:
            if line.strip():
                block.append(line)
            elif block:
                yield self._example(block, self.lines.number - len(block))
                block = []
        if block:
            yield self._example(block, self.lines.number - len(block) + 1)

    def write(self, predicted: Iterable[tuple[MarkedPair, Any]]) -> Iterator[str]:
        """Yield the lines of the examples with the predicted relations."""
        for example, prediction in predicted:
            sentence, *rest = example.record
            yield "\n".join([sentence, prediction.label, *rest[1:]]) + "\n\n"

    def _example(self, block: list[str], first: int) -> MarkedPair:
        place = Place(self.lines.name, first)
        match = _NUMBERED.match(block[0])
        if match is None:
            raise InputError(f'{place}: {block[0]!r:.50} is not a number, a tab and a quoted "sentence".')
        if self.labelled and len(block) < 2:
            raise InputError(f"{place}: the line with the relation is missing after the sentence.")
        label = block[1].strip() if len(block) > 1 else None
        return MarkedPair.parse(match[2], label, self.tokenizer, place, block)


class SquadReader(Reader):
    """Questions about passages, SQuAD 1 or 2: JSON with data, paragraphs, context, qas and answers."""

    def __init__(self, lines: Lines, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        super().__init__(lines, family, settings, labelled=labelled)
        try:
            self._data = json.loads("\n".join(lines))
        except json.JSONDecodeError as error:
            raise InputError(f"{lines.name}, line {error.lineno}: not valid JSON ({error.msg}).") from error
        if not isinstance(self._data, dict) or not isinstance(self._data.get("data"), list):
            raise InputError(f"{lines.name}, line 1: no list 'data' at the top; SQuAD's JSON was expected.")
        self._place = Place(lines.name, 1, "question")

    def __iter__(self) -> Iterator[Question]:
        for article in self._data["data"]:
            for paragraph in self._field(article, "paragraphs", list):
                passage = self._field(paragraph, "context", str)
                words = self.tokenizer(passage)
                for qa in self._field(paragraph, "qas", list):
                    question, answers = self._field(qa, "question", str), self._answers(qa)
                    yield Question.parse(
                        question, passage, answers, self.tokenizer, self._place, passage_words=words, record=qa
                    )
                    self._place = replace(self._place, line=self._place.line + 1)

    def write(self, predicted: Iterable[tuple[Question, Any]]) -> Iterator[str]:
        """Yield the whole file, with the predicted answers."""
        for example, prediction in predicted:
            qa = example.record
            qa["answers"] = [{"text": prediction.text, "answer_start": prediction.start}] if prediction.text else []
            if "is_impossible" in qa:
                qa["is_impossible"] = not qa["answers"]
        yield json.dumps(self._data, ensure_ascii=False) + "\n"

    def _answers(self, qa: dict[str, Any]) -> list[tuple[str, int | None]]:
        if not qa.get("answers") and (qa.get("is_impossible") is True or not self.labelled):
            return []
        answers = self._field(qa, "answers", list)
        return [(self._field(answer, "text", str), self._field(answer, "answer_start", int)) for answer in answers]

    def _field(self, values: Any, name: str, expected: type) -> Any:
        value = values.get(name) if isinstance(values, dict) else None
        if not isinstance(value, expected) or isinstance(value, bool):
            raise InputError(f"{self._place}: '{name}' is missing or not a {expected.__name__} in {values!r:.80}.")
        return value


class WsdReader(Reader):
    """Word senses in the format of the unified evaluation framework: X.data.xml and, next to it, X.gold.key.txt.

    Predictions are written as a key file for the framework's scorer.
    """

    def __init__(self, lines: Lines, family: str, settings: ReadSettings, *, labelled: bool) -> None:
        super().__init__(lines, family, settings, labelled=labelled)
        self._keys = _read_keys(lines.path, labelled=labelled)

    def __iter__(self) -> Iterator[SenseSentence]:
        parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("start", "end"))
        first = 1
        try:
            for line in self.lines:
                parser.feed(line + "\n")
                for event, element in cast(Iterator[tuple[str, ElementTree.Element]], parser.read_events()):
                    if event == "start" and element.tag == "sentence":
                        first = self.lines.number
                    elif event == "end" and element.tag == "sentence":
                        yield self._sentence(element, Place(self.lines.name, first))
                        element.clear()
            parser.close()
        except ElementTree.ParseError as error:
            raise self.lines.fail(f"not well-formed XML ({error}).") from error

    def write(self, predicted: Iterable[tuple[SenseSentence, Any]]) -> Iterator[str]:
        """Yield one line per target: its id and the predicted key, or the id alone if there is none."""
        for example, prediction in predicted:
            for target, key in zip(example.targets, prediction.keys, strict=True):
                yield f"{target.id} {key or ''}".strip() + "\n"

    def _sentence(self, element: ElementTree.Element, place: Place) -> SenseSentence:
        words: list[str] = []
        targets: list[SenseTarget] = []
        for child in element:
            text = (child.text or "").split()
            if child.tag == "instance":
                targets.append(self._target(child, (len(words), len(words) + len(text)), place))
            words += text
        return SenseSentence(tuple(words), tuple(targets), place=place)

    def _target(self, instance: ElementTree.Element, span: Span, place: Place) -> SenseTarget:
        identifier, lemma, pos = (instance.get(name) for name in ("id", "lemma", "pos"))
        if identifier is None or lemma is None or pos is None or span[0] == span[1]:
            raise InputError(f"{place}: an <instance> lacks its id, lemma, pos or words.")
        keys = self._keys.get(identifier)
        if self.labelled and not keys:
            raise InputError(f"{place}: the key file has no line for {identifier}.")
        return SenseTarget(identifier, span, lemma, pos, keys)


def _read_keys(path: str, *, labelled: bool) -> dict[str, tuple[str, ...]]:
    name = Path(path).name
    stem = re.sub(r"(\.data)?(\.xml)?(\.(gz|xz|bz2|zst))?$", "", name)
    names = sorted(Path(path).parent.glob(f"{glob.escape(stem)}.gold.key.txt*"))
    key_file = None if path == STDIN or not names else names[0]
    if key_file is None and labelled:
        raise InputError(f"{path} has no key file; its senses were expected in X.gold.key.txt next to X.data.xml.")
    cells = (line.split() for line in (() if key_file is None else Lines(key_file)))
    return {identifier: tuple(senses) for identifier, *senses in filter(None, cells)}


def read_first_senses(path: str | Path) -> dict[str, str]:
    """Read the first sense of each lemma and part of speech, as in bank#NOUN, from WordNet's index.sense."""
    senses: dict[str, str] = {}
    lines = Lines(path)
    for line in lines:
        cells = line.split()
        lemma, _, rest = (cells or [""])[0].partition("%")
        if len(cells) != 4 or rest[:1] not in _PARTS_OF_SPEECH or not cells[2].isdigit():
            raise lines.fail(f"{line!r:.60} is not a line of WordNet's index.sense: key, offset, number, count.")
        if cells[2] == "1":
            senses[f"{lemma.lower()}#{_PARTS_OF_SPEECH[rest[0]]}"] = cells[0]
    return senses
