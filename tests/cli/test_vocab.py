from pathlib import Path

import numpy as np
import pytest

from elmo.checkpoint.folder import read_folder
from elmo.checkpoint.vocabulary import change_vocabulary
from tests.cli.conftest import Run
from tests.language_models import SPECIAL, VOCABULARY, make_language_model


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode("utf-8"))
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def assert_has(folder: Path, words):
    found, expected = read_folder(folder), change_vocabulary(make_language_model().checkpoint(), words)
    assert found.vocabulary == tuple(words)
    assert all(np.array_equal(found.weights[name], tensor) for name, tensor in expected.weights.items())


def test_words_are_added_once_at_the_end(run: Run, language_folder, tmp_path):
    words = write(tmp_path / "words.txt", "fish\nbank\nboat\nfish\n")
    answer = run("vocab", language_folder, tmp_path / "new", "--add", words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"Wrote {tmp_path / 'new'} (words: 13; kept: 11, new: 2, left out: 0).\n"
    assert_has(tmp_path / "new", [*VOCABULARY, "fish", "boat"])


def test_a_whole_new_list(run: Run, language_folder, tmp_path):
    words = [*SPECIAL, "fish", "bank"]
    path = write(tmp_path / "words.txt", "\n".join(words))
    answer = run("vocab", language_folder, tmp_path / "new", "--vocabulary", path)
    assert answer.out == f"Wrote {tmp_path / 'new'} (words: 5; kept: 4, new: 1, left out: 7).\n"
    assert_has(tmp_path / "new", words)


def test_a_list_written_elsewhere(run: Run, language_folder, tmp_path):
    path = write(tmp_path / "words.txt", "\ufefffish\r\n語\r\n")
    assert run("vocab", language_folder, tmp_path / "new", "--add", path).code == 0
    assert_has(tmp_path / "new", [*VOCABULARY, "fish", "語"])


def test_odd_words_that_the_model_has_may_stay(run: Run, tmp_path):
    words = [*VOCABULARY, "", "\xa0", "a b"]
    make_language_model(words).save_pretrained(tmp_path / "odd")
    path = write(tmp_path / "words.txt", "\n".join([*words, "fish"]) + "\n")
    assert run("vocab", tmp_path / "odd", tmp_path / "new", "--vocabulary", path).code == 0
    assert read_folder(tmp_path / "new").vocabulary == (*words, "fish")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fish\n\nboat\n", "line 2: ''"),
        (b"fish\t12\n", "line 1: 'fish\\t12'"),
        (b"New York\n", "line 1: 'New York'"),
        (b"", "has no words"),
        (b"fi\xffsh\n", "is not UTF-8"),
    ],
)
def test_files_without_one_word_per_line_are_errors(run: Run, language_folder, tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    assert message in run("vocab", language_folder, tmp_path / "new", "--add", path).message()
    assert names(tmp_path) == ["words.txt"]


def test_options_that_do_not_fit(run: Run, language_folder, tmp_path):
    path = write(tmp_path / "words.txt", "fish\n")
    output = tmp_path / "new"
    message = "Give either --vocabulary, a complete new vocabulary, or --add, words to append."
    assert message in run("vocab", language_folder, output, "--add", path, "--vocabulary", path).message()
    assert message in run("vocab", language_folder, output).message()
    missing = "No such file: 'no.txt'"
    assert missing in run("vocab", language_folder, output, "--vocabulary", "no.txt").message()


def test_a_model_without_vocabulary(run: Run, model_folder, tmp_path):
    path = write(tmp_path / "words.txt", "fish\n")
    message = run("vocab", model_folder, tmp_path / "new", "--add", path).message()
    assert message.startswith("This model has no vocabulary to change")
