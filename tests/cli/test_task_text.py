"""`elmo task predict` on plain text, for every family."""

import contextlib
import dataclasses
import io
import json

import pytest

from elmo.tasks import load
from tests.tasks.toys import SMALL, SUFFIXES, write_toy

FAST = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
# A line of text for each family, the same as Python takes it, and what of the prediction is shown first.
LINES = {
    "tagging": ("I like Paris city .", "I like Paris city .", lambda found: f"I\t{found.tags[0]}"),
    "classification": ("look, a rat here", "look, a rat here", lambda found: found.label),
    "pairs": ("a rat runs ||| the bug sits", ("a rat runs", "the bug sits"), lambda found: found.label),
    "relations": (
        "the <e1>Paris</e1> in the <e2>box</e2>.",
        "the <e1>Paris</e1> in the <e2>box</e2>.",
        lambda found: found.label,
    ),
    "question_answering": (
        "Which place ?\tAnn went to Oslo by train .",
        ("Which place ?", "Ann went to Oslo by train ."),
        lambda found: found.text,
    ),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, model_folder):
    """The folder of a trained toy task per family, made once."""
    from elmo.cli import main

    made = {}

    def get(family):
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            write_toy(family, folder, "dev", seed=1, size=12)
            path = write_toy(family, folder, size=48)
            dev = folder / f"dev.{SUFFIXES[family]}"
            arguments = [
                "task", "train", family, "--train", path, "--dev", dev, "--model", model_folder, "--output",
                folder / "task", "--cache", folder / "cache", *FAST, "--epochs", "20",
            ]  # fmt: skip
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                assert main([str(argument) for argument in arguments]) == 0
            made[family] = folder / "task"
        return made[family]

    return get


@pytest.mark.parametrize("family", LINES)
@pytest.mark.parametrize("form", ["stdin", "several lines", "file", "--text", "--json", "--format text"])
def test_plain_text_is_answered_as_text(trained, run, tmp_path, family, form):
    line, item, show = LINES[family]
    folder = trained(family)
    (expected,) = load(folder).predict([item])
    match form:
        case "stdin":
            answer = run("task", "predict", folder, stdin=f"{line}\n".encode())
        case "several lines":
            answer = run("task", "predict", folder, stdin=f"{line}\n\n{line}\n{line}\n".encode())
            assert answer.out.count(show(expected)) == 3, answer
        case "file":
            (tmp_path / "some.txt").write_text(line)
            answer = run("task", "predict", folder, tmp_path / "some.txt")
        case "--text":
            answer = run("task", "predict", folder, "--text", line)
        case "--format text":
            (tmp_path / "some.conll").write_text(line)
            answer = run("task", "predict", folder, tmp_path / "some.conll", "--format", "text")
        case "--json":
            answer = run("task", "predict", folder, "--text", line, "--json")
            found = json.loads(answer.out)
            for name, value in dataclasses.asdict(expected).items():
                assert found[name] == json.loads(json.dumps(value)), name
            return
    assert answer.code == 0, answer
    assert answer.out.startswith(show(expected)), answer


def test_the_toys_are_learned_so_that_answers_mean_something(trained, run):
    answer = run("task", "predict", trained("tagging"), "--text", "I like Paris city .")
    assert answer.out == "I\tO\nlike\tO\nParis\tB-place\ncity\tI-place\n.\tO\n\n"
    assert run("task", "predict", trained("classification"), "--text", "look, a rat here").out[:4] == "bad\t"
    question = "Which place ? ||| Ann went to Oslo by train ."
    assert run("task", "predict", trained("question_answering"), "--text", question).out.startswith("Oslo\t")


def test_a_probability_and_the_text_follow_the_label(trained, run):
    label, probability, text = run("task", "predict", trained("classification"), stdin=b"a dog").out.split("\t")
    assert label in ("good", "bad") and 0.5 <= float(probability) <= 1 and text == "a dog\n"


@pytest.mark.parametrize(
    "text",
    [
        "We like Oslo city .\nWe like Rome city .\n",  # every line of as many words
        "- We like Oslo city .\n",
        "我去银行存钱。\n",
        "# Heading\nWe like Oslo city .\n",
    ],
)
def test_lines_of_words_are_not_taken_for_conll_rows(trained, run, text):
    answer = run("task", "predict", trained("tagging"), stdin=text.encode())
    assert answer.code == 0, answer
    tags = {"O", "B-place", "I-place"}
    rows = [row.split("\t") for row in answer.out.splitlines() if row]
    assert all(len(row) == 2 and row[1] in tags for row in rows)
    assert "".join(row[0] for row in rows) == "".join(text.split())


def test_words_one_per_line_are_conll_if_requested(trained, run):
    folder = trained("tagging")
    answer = run("task", "predict", folder, "--format", "conll", stdin=b"We\nlike\nOslo\n")
    assert answer.out == "We O\nlike O\nOslo B-place\n\n"


@pytest.mark.parametrize(
    ("family", "text", "message"),
    [
        ("pairs", "a rat runs\n", "is not two sentences separated by a tab or |||"),
        ("pairs", "a\tb\tc\n", "is not two sentences separated by a tab or |||"),
        (
            "question_answering",
            "Which place?\n",
            "is not a question and its passage separated by a tab or |||",
        ),
        ("relations", "the arm of a chair\n", "is not a sentence with <e1>…</e1> and <e2>…</e2>"),
        ("senses", "the money bank\n", "is read as 'text', but senses reads wsd; set --format."),
    ],
)
def test_a_line_without_marks_is_an_error_with_an_example(trained, run, family, text, message):
    assert message in run("task", "predict", trained(family), stdin=text.encode()).message()


@pytest.mark.parametrize("text", ["[Paris] is a city", "{a} brace", "(What a rat)", "label", "text, label"])
def test_brackets_and_names_in_a_text_do_not_make_it_another_format(trained, run, text):
    answer = run("task", "predict", trained("classification"), stdin=f"{text}\n".encode())
    assert answer.code == 0 and answer.out.endswith(f"\t{text}\n"), answer


def test_tables_round_trip(trained, run):
    folder = trained("classification")
    assert run("task", "predict", folder, "--format", "csv", stdin=b"text\na rat\n").out == "text,label\na rat,bad\n"
    answer = run("task", "predict", folder, "--format", "jsonl", stdin=b'{"text": "a rat"}\n')
    assert json.loads(answer.out)["label"] == "bad"


def test_file_and_text_are_not_both_taken(trained, run):
    folder = trained("classification")
    message = run("task", "predict", folder, "a.txt", "--text", "b").message()
    assert message == "FILE (a.txt) and --text were both given; use one."


def test_plain_text_cannot_be_evaluated(trained, run, tmp_path):
    (tmp_path / "some.txt").write_text("a rat")
    answer = run("task", "evaluate", trained("classification"), tmp_path / "some.txt", "--format", "text")
    assert "some.txt is read as 'text', but classification reads csv, tsv" in answer.message()
