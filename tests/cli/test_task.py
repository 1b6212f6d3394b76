"""`elmo task`: from labelled files to predictions in the same format."""

import json
from pathlib import Path

import pytest

from tests.tasks.toys import SMALL, SUFFIXES, write_toy

TAGGED = [(1, "dogs", "NNS"), (2, "run", "VBP"), (3, "fast", "RB")]
FAST = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture
def train(run, model_folder, tmp_path):
    def call(family, *more, output="task"):
        write_toy(family, tmp_path, "dev", seed=1, size=12)
        files = (write_toy(family, tmp_path), tmp_path / f"dev.{SUFFIXES[family]}")
        cache = ("--cache", tmp_path / "cache")
        answer = run(
            "task", "train", family, "--train", files[0], "--dev", files[1], "--model", model_folder,
            "--output", tmp_path / output, *cache, *FAST, *more,
        )  # fmt: skip
        return tmp_path / output, answer

    return call


def test_a_tagger_is_trained_measured_and_used(train, run, tmp_path):
    folder, answer = train("tagging")
    assert answer.code == 0, answer
    assert "is done, best after epoch" in answer.out and "dev f1 100.00" in answer.out
    test = write_toy("tagging", tmp_path, "test", seed=2)
    scores = json.loads(run("task", "evaluate", folder, test, "--json").out)
    assert scores["f1"] == 100 and scores["num_examples"] == 24
    blank = tmp_path / "blank.conll"
    blank.write_text("".join(line.split("\t")[0] + "\n" for line in test.read_text().splitlines()))
    assert run("task", "predict", folder, blank, "--output", tmp_path / "out.conll").code == 0
    words = [line.split() for line in (tmp_path / "out.conll").read_text().splitlines() if line]
    assert words == [line.split() for line in test.read_text().splitlines() if line]
    from_stdin = run("task", "predict", folder, "--format", "conll", stdin=test.read_bytes())
    assert from_stdin.out.rstrip() == test.read_text().rstrip()


def test_predictions_are_written_in_the_format_that_came(train, run, tmp_path):
    folder, _ = train("classification")
    answer = run("task", "predict", folder, "--format", "jsonl", stdin=b'{"id": 1, "text": "look, a rat here"}\n')
    assert json.loads(answer.out) == {"id": 1, "text": "look, a rat here", "label": "bad"}
    (tmp_path / "new.csv").write_text('text\n"look, a dog here"\n')
    answer = run("task", "predict", folder, tmp_path / "new.csv")
    assert answer.out == 'text,label\n"look, a dog here",good\n'


def test_a_file_is_read_with_the_columns_of_training(train, run, tmp_path):
    rows = "".join(f"{number}\t{word}\t_\tX\t{tag}\t_\t_\t_\t_\t_\n" for number, word, tag in TAGGED)
    (tmp_path / "u.conllu").write_text(rows + "\n")
    folder = tmp_path / "xpos"
    arguments = ("--train", tmp_path / "u.conllu", "--dev", tmp_path / "u.conllu", "--column", "tag=xpos")
    assert run("task", "train", "tagging", *arguments, "--elmo", "none", "--output", folder, *FAST).code == 0
    scores = json.loads(run("task", "evaluate", folder, tmp_path / "u.conllu", "--json").out)
    assert scores["accuracy"] == 100
    answer = run("task", "predict", folder, tmp_path / "u.conllu")
    assert answer.out == rows + "\n"


def test_a_column_that_is_named_takes_the_place_of_the_trained_one(train, run, tmp_path):
    rows = "".join(f"{label},look at the {word} here\n" for word, label in (("dog", "good"), ("rat", "bad")) * 12)
    (tmp_path / "nohead.csv").write_text(rows)
    files = ("--train", tmp_path / "nohead.csv", "--dev", tmp_path / "nohead.csv", "--output", tmp_path / "task")
    columns = ("--text-column", "2", "--label-column", "1")
    assert run("task", "train", "classification", *files, *columns, "--elmo", "none", *FAST).code == 0
    answer = run(
        "task", "predict", tmp_path / "task", "--format", "csv", "--column", "text=1", stdin=b"look at the rat here\n"
    )
    assert answer.out == "look at the rat here,bad\n"
    answer = run("task", "predict", tmp_path / "task", "--format", "csv", stdin=b"good,look at the rat here\n")
    assert answer.out == "bad,look at the rat here\n"


def test_half_a_character_is_written_to_a_file_as_to_the_screen(train, run, tmp_path):
    folder, _ = train("classification", "--epochs", 1)
    (tmp_path / "half.jsonl").write_text('{"text": "look \\ud83d here"}\n')
    assert run("task", "predict", folder, tmp_path / "half.jsonl", "-o", tmp_path / "out.jsonl").code == 0
    assert "look \\ud83d here" in (tmp_path / "out.jsonl").read_text()


@pytest.mark.parametrize("family", ["pairs", "relations", "question_answering", "senses"])
def test_every_family_goes_from_file_to_file(train, run, tmp_path, family):
    folder, answer = train(family, "--epochs", 1)
    assert answer.code == 0, answer
    path = tmp_path / f"dev.{SUFFIXES[family]}"
    answer = run("task", "predict", folder, path, *(("--format", "semeval") if family == "relations" else ()))
    assert answer.code == 0, answer
    if family == "senses":
        assert all(line.split()[1].startswith("bank%1") for line in answer.out.splitlines())
    else:
        written = tmp_path / f"out.{SUFFIXES[family]}"
        written.write_text(answer.out)
        assert run("task", "evaluate", folder, written, "--json").code == 0


def test_the_detected_format_is_reported(train):
    _, answer = train("classification", "--epochs", 1)
    assert "is read as csv with columns text=text, label=label; change that with --text-column" in answer.err


def test_a_comparison_prints_a_table(train, tmp_path):
    _, answer = train(
        "classification", "--compare", "--variants", "baseline,learned", "--seeds", 1, "--fractions", "0.5,1",
        "--epochs", 1,
    )  # fmt: skip
    assert answer.code == 0, answer
    rows = answer.out.splitlines()
    assert rows[0].startswith("| variant | data | score")
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| baseline", "| learned"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tagging"], "Give FAMILY, --train FILE and --output RUN"),
        (["parsing", "--train", "x", "--output", "y"], "choose one of tagging, classification"),
        (["tagging", "--train", "gone.conll", "--output", "run"], "No such file: 'gone.conll'"),
        (["tagging", "--train", "bad.conll", "--output", "run"], "bad.conll, line 2: 1 column(s)"),
        (["tagging", "--train", "bad.conll", "--output", "run", "--set", "fit.sede=1"], "did you mean 'seed'?"),
        (["tagging", "--train", "bad.conll", "--output", "run", "--column", "tag"], "write it as ROLE=NAME."),
        (["tagging", "--train", "bad.conll", "-o", "run", "--compare", "--fractions", "2"], "fractions has 2.0"),
        (["tagging", "--train", "bad.conll", "-o", "run", "--compare", "--fractions", "x"], "--fractions is 'x'"),
        (["--resume", "nothing"], "is not a run that can be resumed"),
        (["--resume", "x", "--carry-bilm", "--cache", "y"], "so it takes no --cache, --carry-bilm"),
        (["tagging", "--train", "bad.conll", "-o", "run", "--seeds", "2"], "--seeds needs --compare."),
        (
            ["tagging", "--train", "x.conll", "-o", "run", "--word-vectors", "v", "--word-features", "learned"],
            "--word-vectors is for pretrained words",
        ),
        (["tagging", "--resume", "nothing"], "so it takes no FAMILY"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_leaves_nothing(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("bad.conll").write_text("a\tO\nb\n")
    assert message in run("task", "train", *arguments).message()
    assert [path.name for path in tmp_path.iterdir()] == ["bad.conll"]


def test_a_finished_run_is_reported_again(train, run):
    folder, first = train("classification", "--epochs", 1)
    (folder / "training" / "state.pt").touch()  # as a process leaves it that is killed at the very end
    again = run("task", "train", "--resume", folder)
    assert (again.code, again.out) == (0, first.out)
    assert not (folder / "training" / "state.pt").exists()
    assert "exists already" in train("classification")[1].message()


def test_input_is_not_overwritten_and_a_fault_leaves_no_output(train, run, tmp_path):
    folder, _ = train("classification", "--epochs", 1)
    path = tmp_path / "dev.csv"
    assert "both input and output" in run("task", "predict", folder, path, "-o", path).message()
    (tmp_path / "bad.csv").write_text('text,label\n"a b c",x\n"d"\n')
    message = run("task", "predict", folder, tmp_path / "bad.csv", "-o", tmp_path / "out.csv").message()
    assert "bad.csv, line 3" in message
    assert not (tmp_path / "out.csv").exists()


def test_a_classifier_of_a_table_without_a_header_reads_others_by_position(run, tmp_path):
    rows = "".join(f"a {animal} here,{label}\n" for animal, label in (("cat", "good"), ("rat", "bad"))) * 8
    (tmp_path / "rows.csv").write_text(rows)
    arguments = ("--train", tmp_path / "rows.csv", "--dev", tmp_path / "rows.csv", "--elmo", "none")
    arguments += ("--text-column", "1", "--label-column", "2")
    folder = tmp_path / "headerless"
    assert run("task", "train", "classification", *arguments, "--output", folder, *FAST).code == 0
    (tmp_path / "new.csv").write_text("a cat here,bad\na rat here,_\na rat here,\n")
    expected = "a cat here,good\na rat here,bad\na rat here,bad\n"
    assert run("task", "predict", folder, tmp_path / "new.csv").out == expected
    (tmp_path / "new.csv").write_text('"a cat, really"\n"a rat, truly"\n')
    assert run("task", "predict", folder, tmp_path / "new.csv").out == '"a cat, really",good\n"a rat, truly",bad\n'


@pytest.mark.parametrize(
    ("name", "family", "target"),
    [
        ("ner", "tagging", None), ("pos", "tagging", None), ("chunking", "tagging", None),
        ("sentiment", "classification", None), ("topic", "classification", None),
        ("qa", "question_answering", None),
        ("wsd", "senses", None), ("entailment", "pairs", "label"), ("similarity", "pairs", "score"),
    ],
)  # fmt: skip
def test_a_task_may_be_named_as_people_call_it(run, tmp_path, name, family, target):
    path = write_toy(family, tmp_path)
    if target == "score":
        path.write_text(path.read_text().replace('"same"', "4").replace('"other"', "1"))
    folder = tmp_path / "run"
    files = ("--train", path, "--dev", path, "--output", folder)
    answer = run("task", "train", name, *files, "--elmo", "none", *FAST, "--epochs", 1)
    assert answer.code == 0, answer
    trained = json.loads((folder / "task.json").read_text())
    assert trained["family"] == family
    assert target is None or trained["read"]["pair_target"] == target
