import pytest

from tests.cli.conftest import Run


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
    assert lines[4].startswith("   substitutes: ") and lines[5].startswith("   I went to the [bank] ")
    arguments = ("senses", "bank", "--corpus", path, "-m", language_folder, "--max-occurrences", "3")
    assert "in 5 occurrences.\n3 of them, sampled, were clustered.\n" in run(*arguments).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank"], "No corpus was given"),
        (["unicorn", "--corpus", "text.txt"], "'unicorn' does not occur in the corpus"),
    ],
)
def test_mistakes(run: Run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("some words\n")
    assert message in run("senses", *arguments).message()
