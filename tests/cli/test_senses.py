import json

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "bank.tsv"
    lines = [
        f"{label}\t{before} [bank] {after} {number}\n"
        for number in range(12)
        for label, before, after in (("money", "the money to the", "went to"), ("river", "I . I", ". . I"))
    ]
    path.write_text("".join(lines))
    return path


def test_senses_of_a_word_in_a_text(run: Run, tmp_path, language_folder):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"I went to the bank {number}\n" for number in range(5)))
    answer = run("senses", "Bank", "--corpus", path, "-m", language_folder, "--split", "lines", "--contexts", "1")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[:2] == [
        "Bank: 1 sense(s) in 5 occurrences.",
        "These are too few to tell senses apart; at least 10 are needed.",
    ]
    assert lines[3] == "1. 5 occurrences, 100%"
    assert lines[4].startswith("   would fit: ") and lines[5].startswith("   I went to the [bank] ")


def test_labels_are_compared_with(run: Run, labelled, language_folder):
    found = json.loads(
        run("senses", "bank", "--labelled", labelled, "-m", language_folder, "--senses", "2", "--json").out
    )
    assert (found["num_found"], len(found["senses"])) == (24, 2)
    assert found["scores"].keys() == {"num_labels", "num_clusters", "adjusted_rand", "v_measure"}
    drawn = run("senses", "bank", "--labelled", labelled, "-m", language_folder, "--max-occurrences", "9")
    assert "in 24 occurrences.\n9 of them, sampled, were clustered.\n" in drawn.out and ", V-measure " in drawn.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank"], "No corpus was given"),
        (["unicorn", "--corpus", "text.txt"], "'unicorn' does not occur in the corpus"),
        (["bank", "--corpus", "text.txt", "--labelled", "x"], "--labelled replaces --corpus"),
    ],
)
def test_mistakes(run: Run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("some words\n")
    assert message in run("senses", *arguments).message()
