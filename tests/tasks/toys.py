"""Small labelled files that a network can memorize, one per family, and settings for tiny networks."""

import json
import random
from pathlib import Path

from elmo.tasks.fit import TaskReport
from elmo.tasks.settings import TaskSettings, make_settings

SMALL = {
    "words.dim": 8, "words.min_count": 1, "words.dropout": 0.0, "network.dim": 16, "network.dropout": 0.0,
    "elmo.dropout": 0.0, "fit.min_batches": 1, "fit.batch_size": 8, "fit.learning_rate": 0.02,
    "fit.num_epochs": 8, "fit.patience": 8,
}  # fmt: skip
ANIMALS = {"cat": "good", "dog": "good", "rat": "bad", "bug": "bad"}
PLACES = ("Paris", "Oslo", "Rome", "Lima")


def watching(**calls: object) -> TaskReport:
    """A report that calls these."""
    report = TaskReport()
    vars(report).update(calls)
    return report


def small(family: str, **changes: object) -> TaskSettings:
    """Settings of a tiny network; names with __ for the dot."""
    network = {"network.kind": "bilstm"} if family == "classification" else {}
    return make_settings(
        family, {**SMALL, **network, **{name.replace("__", "."): value for name, value in changes.items()}}
    )


def write_toy(family: str, folder: Path, name: str = "train", *, size: int = 24, seed: int = 0) -> Path:
    """Write examples of a family in the format it is best known by."""
    draw = random.Random(f"{'spans' if family == 'question_answering' else family} {seed}")  # as in saved_folders
    path = folder / f"{name}.{SUFFIXES[family]}"
    path.write_text(WRITERS[family](draw, size), encoding="utf-8")
    if family == "senses":
        keys = "".join(f"{line}\n" for line in sense_keys(path.read_text()))
        (folder / f"{name}.gold.key.txt").write_text(keys)
    return path


def _tagging(draw: random.Random, size: int) -> str:
    def sentence() -> str:
        place = draw.choice(PLACES)
        rows = [
            (draw.choice(("I", "you", "we")), "O"),
            ("like", "O"),
            (place, "B-place"),
            ("city", "I-place"),
            (".", "O"),
        ]
        return "".join(f"{word}\t{tag}\n" for word, tag in rows)

    return "\n".join(sentence() for _ in range(size))


def _classification(draw: random.Random, size: int) -> str:
    rows = [draw.choice(list(ANIMALS)) for _ in range(size)]
    return "text,label\n" + "".join(f'"look, a {animal} here",{ANIMALS[animal]}\n' for animal in rows)


def _pairs(draw: random.Random, size: int) -> str:
    rows = []
    for _ in range(size):
        first, second = draw.choice(list(ANIMALS)), draw.choice(list(ANIMALS))
        label = "same" if ANIMALS[first] == ANIMALS[second] else "other"
        rows.append({"premise": f"a {first} runs", "hypothesis": f"the {second} sits", "label": label})
    return "".join(json.dumps(row) + "\n" for row in rows)


def _relations(draw: random.Random, size: int) -> str:
    blocks = []
    for number in range(size):
        word, label = draw.choice((("in", "Inside(e1,e2)"), ("around", "Inside(e2,e1)"), ("and", "Other")))
        text = f"the <e1>{draw.choice(PLACES)}</e1> {word} the <e2>box</e2>"
        blocks.append(f'{number}\t"{text}."\n{label}\nComment: none\n\n')
    return "".join(blocks)


def _question_answering(draw: random.Random, size: int) -> str:
    paragraphs = []
    for number in range(size):
        place = draw.choice(PLACES)
        context = f"{draw.choice(('Ann', 'Bob'))} went to {place} by train ."
        answers = [{"text": place, "answer_start": context.index(place)}]
        qas = [{"id": f"q{number}", "question": "Which place ?", "answers": answers}]
        paragraphs.append({"context": context, "qas": qas})
    return json.dumps({"version": "1.1", "data": [{"title": "toy", "paragraphs": paragraphs}]}, indent=1)


def _senses(draw: random.Random, size: int) -> str:
    sentences = []
    for number in range(size):
        word = draw.choice(("money", "river"))
        sentences.append(
            f'<sentence id="s{number:03}">\n<wf lemma="the" pos="DET">the</wf>\n'
            f'<wf lemma="{word}" pos="NOUN">{word}</wf>\n'
            f'<instance id="s{number:03}.t0" lemma="bank" pos="NOUN">bank</instance>\n</sentence>\n'
        )
    return f'<?xml version="1.0"?>\n<corpus>\n<text id="d">\n{"".join(sentences)}</text>\n</corpus>\n'


def sense_keys(xml: str) -> list[str]:
    """The right keys of what _senses wrote."""
    words = [line.split('"')[1] for line in xml.splitlines() if "money" in line or "river" in line]
    ids = [line.split('"')[1] for line in xml.splitlines() if "<instance" in line]
    return [
        f"{identifier} bank%1:{'14' if word == 'money' else '17'}:00::"
        for identifier, word in zip(ids, words, strict=True)
    ]


SUFFIXES = {
    "tagging": "conll", "classification": "csv", "pairs": "jsonl", "relations": "txt",
    "question_answering": "json",
    "senses": "data.xml",
}  # fmt: skip
WRITERS = {
    "tagging": _tagging, "classification": _classification, "pairs": _pairs, "relations": _relations,
    "question_answering": _question_answering, "senses": _senses,
}  # fmt: skip
