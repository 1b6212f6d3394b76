import pytest

from tests.cli.conftest import Run


def test_similarity_of_two_sentences(run: Run, model_folder, tmp_path):
    output = tmp_path / "map.svg"
    answer = run(
        "plot", "similarity", "the bank", "a river bank", "--layers", "0", "--layers", "1", "-o", output,
        "-m", model_folder,
    )  # fmt: skip
    assert (answer.code, answer.out) == (0, f"Wrote {output}.\n")
    assert ">river<" in output.read_text()


def test_a_map_of_a_word(run: Run, model_folder, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "map.png"
    text.write_text("".join(f"the bank number {number}\n" for number in range(15)))
    answer = run("plot", "map", "bank", "--corpus", text, "-o", output, "-m", model_folder, "--split", "lines")
    assert answer.code == 0 and answer.out.startswith(f"Wrote {output}: 15 occurrences of 'bank' in ")
    assert output.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a bank\n", "needs at least 3 sentences with the word"),
        ("", "needs at least 3 sentences with the word"),
    ],
)
def test_a_map_of_too_little(run: Run, model_folder, tmp_path, text, message):
    (tmp_path / "text.txt").write_text(text)
    answer = run("plot", "map", "bank", "--corpus", tmp_path / "text.txt", "-o", tmp_path / "x.png", "-m", model_folder)
    assert message in answer.message() and not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["similarity", "a", "b", "-o", "x.pdf"], "x.pdf should end in .png or .svg"),
        (["map", "bank", "-o", "x.png"], "No corpus was given"),
    ],
)
def test_mistakes(run: Run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run("plot", *arguments).message()


def test_without_a_kind_the_help_is_shown(run: Run):
    answer = run("plot")
    assert answer.code == 2 and "similarity" in answer.out and "map" in answer.out
