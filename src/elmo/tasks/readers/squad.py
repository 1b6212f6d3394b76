"""Questions on passages as SQuAD keeps them: JSON with data, paragraphs, context, qas and answers.

The answer of a question is a piece of its passage, found as the words that cover its characters. A question may
have none (SQuAD 2): its answers are an empty list.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from elmo.errors import InputError
from elmo.tasks.examples import Place, Question, Span
from elmo.tasks.readers.lines import Lines
from elmo.text.tokenize import Word, tokenize


def make_question(
    question: str,
    passage: str,
    answers: Sequence[tuple[str, int | None]],
    place: Place,
    where: str,
    *,
    passage_words: Sequence[Word] | None = None,
    record: Any = None,
) -> Question:
    """Make an example of a question; `answers` are texts with the character each starts at, if that is known.

    Where all texts are empty, the passage has no answer.
    """
    answers = answers if any(text for text, _ in answers) else ()
    words = tokenize(passage) if passage_words is None else passage_words
    spans = [_find(passage, text, start, f"{place}: {where}") for text, start in answers]
    return Question(
        words=tuple(word.text for word in tokenize(question)),
        passage=passage,
        passage_words=tuple(word.text for word in words),
        offsets=tuple((word.start, word.end) for word in words),
        answers=tuple(text for text, _ in answers),
        answer_span=_words_of(words, spans[0]) if spans else None,
        place=place,
        record=record,
    )


class SquadReader:
    """Questions of a SQuAD file, of version 1 or 2."""

    def __init__(self, lines: Lines, *, labelled: bool) -> None:
        self._name, self._labelled = lines.name, labelled
        self.columns: dict[str, str] = {}
        text = "\n".join(lines)
        try:
            self._data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{self._name}, line {error.lineno}: not valid JSON ({error.msg}).") from error
        if not isinstance(self._data, dict) or not isinstance(self._data.get("data"), list):
            raise InputError(f"{self._name}, line 1: no list 'data' at the top; SQuAD's JSON was expected.")
        self._lines = _IdLines(text)
        self._open: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Question]:
        for article_number, article in enumerate(self._data["data"]):
            for paragraph_number, paragraph in enumerate(self._part(article, "paragraphs", list)):
                passage = self._part(paragraph, "context", str)
                words = tokenize(passage)
                questions = self._part(paragraph, "qas", list)
                for qa in questions:
                    question = self._part(qa, "question", str)
                    yield make_question(
                        question, passage, self._answers(qa), self._place(qa),
                        f"question {qa.get('id', '')}", passage_words=words,
                        record=(article_number, paragraph_number, qa),
                    )  # fmt: skip

    def begin(self) -> str:
        """Give the head of the file."""
        return f'{{"version": {json.dumps(self._data.get("version", "1.1"))}, "data": ['

    def write(self, example: Question, prediction: Any) -> str:
        """Give the question with the predicted answer, and what of its article begins with it."""
        article, paragraph, qa = example.record
        before = "" if self._open is None else ", "
        if self._open != (article, paragraph):
            head = f'{{"context": {json.dumps(example.passage, ensure_ascii=False)}, "qas": ['
            if self._open is None or self._open[0] != article:
                title = json.dumps(self._data["data"][article].get("title", ""), ensure_ascii=False)
                head = f'{{"title": {title}, "paragraphs": [{head}'
                before = "" if self._open is None else "]}]}, "
            else:
                before = "]}, "
            before += head
            self._open = (article, paragraph)
        answers = [{"text": prediction.text, "answer_start": prediction.start}] if prediction.text else []
        changes = {"is_impossible": not answers} if "is_impossible" in qa else {}
        return before + json.dumps({**qa, "answers": answers, **changes}, ensure_ascii=False)

    def end(self) -> str:
        """Close what is open."""
        return ("" if self._open is None else "]}]}") + "]}\n"

    def _answers(self, qa: dict[str, Any]) -> list[tuple[str, int | None]]:
        if not qa.get("answers") and (qa.get("is_impossible") is True or not self._labelled):
            return []
        answers = self._part(qa, "answers", list)
        return [(self._part(answer, "text", str), self._part(answer, "answer_start", int)) for answer in answers]

    def _part(self, part: Any, name: str, kind: type) -> Any:
        value = part.get(name) if isinstance(part, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{self._place(part)}: '{name}' is missing or not a {kind.__name__} in {part!r:.80}.")
        return value

    def _place(self, qa: Any) -> Place:
        return Place(self._name, self._lines.find(str(qa.get("id", "")) if isinstance(qa, dict) else ""))


class _IdLines:
    """Finds the line of a question's id; ids come in the order of the file."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def find(self, identifier: str) -> int:
        at = self._text.find(json.dumps(identifier), self._at) if identifier else -1
        if at >= 0:
            self._line += self._text.count("\n", self._at, at)
            self._at = at
        return self._line


def _find(passage: str, answer: str, start: int | None, where: str) -> Span:
    if not answer:
        raise InputError(f"{where}: the answer is empty.")
    if start is None:
        start = passage.find(answer)
        if start < 0:
            raise InputError(f"{where}: the answer {answer!r:.60} is not in the passage.")
    elif passage[start : start + len(answer)] != answer or start < 0:
        raise InputError(
            f"{where}: the answer {answer!r:.60} is not what stands at character {start} of the passage "
            f"({passage[max(0, start) : max(0, start) + len(answer)]!r:.60})."
        )
    return start, start + len(answer)


def _words_of(words: Sequence[Word], characters: Span) -> Span | None:
    covered = [
        number for number, word in enumerate(words) if word.start < characters[1] and word.end > characters[0]
    ]
    return (covered[0], covered[-1] + 1) if covered else None
