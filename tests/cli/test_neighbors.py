import json

import pytest

from tests.cli.conftest import Run

TEXT = "I went to the bank\nThe river bank was green\nThey play in the park\nWe saw a play\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def index(run: Run, text, tmp_path, model_folder):
    folder = tmp_path / "index"
    answer = run("neighbors", "--build", folder, "--corpus", text, "-m", model_folder, "--split", "lines")
    assert answer.out == f"{folder} has 19 occurrences; layers: 1, 2.\n", answer
    return folder


def test_an_index_uses_its_own_model(run: Run, index):
    answer = run("neighbors", "the [bank] of England", "--corpus", index, "--match", "same")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[:2] == ["the [bank] of England", "Searched 19 occurrences."]
    assert [line.split("  ")[0] for line in lines if line.startswith("layer")] == ["layer 1", "layer 2"]
    assert answer.out.count("I went to the [bank]") == answer.out.count("The river [bank] was green") == 2
    assert answer.out.count("layer 0 (no context)") == 2


def test_a_sentence_is_searched_in_the_index_just_built(run: Run, text, tmp_path, model_folder):
    folder, sentence = tmp_path / "both", "the [bank] of England"
    build = ("--build", folder, "--corpus", text, "-m", model_folder, "--split", "lines", "--layers", "1")
    assert run("neighbors", *build, sentence).out == run("neighbors", sentence, "--corpus", folder).out
    assert json.loads(run("neighbors", *build, sentence, "--json").out)["num_occurrences"] == 19


def test_json_of_a_text_file(run: Run, text, model_folder):
    answer = run(
        "neighbors", "my [bank]", "--corpus", text, "-m", model_folder, "--split", "lines",
        "--match", "same", "--layers", "average", "--json",
    )  # fmt: skip
    found = json.loads(answer.out)
    assert found["query"] == {"words": ["my", "bank"], "start": 1, "end": 2}
    assert [layer["layer"] for layer in found["layers"]] == ["average"]
    assert {each["text"] for each in found["layers"][0]["neighbors"]} == set(TEXT.splitlines()[:2])
    assert found["layers"][0]["neighbors"][0]["source"] == str(text)
    assert len(found["static"]) == 10


def test_a_missing_word_is_reported(run: Run, index):
    answer = run("neighbors", "a [unicorn] here", "--corpus", index, "--match", "same")
    assert answer.code == 0 and "No results." in answer.out
    assert json.loads(run("neighbors", "a [x]", "--corpus", index, "--match", "same", "--json").out)["layers"] == [
        {"layer": 1, "neighbors": []},
        {"layer": 2, "neighbors": []},
    ]


def test_building_an_index_again_changes_nothing(run: Run, index, text, model_folder):
    files = {path: path.stat().st_mtime_ns for path in index.rglob("*")}
    arguments = ("neighbors", "--build", index, "--corpus", text, "-m", model_folder, "--split", "lines")
    built = json.loads(run(*arguments, "--json").out)
    assert built == {"num_occurrences": 19, "layers": [1, 2], "model": str(model_folder)}
    assert {path: path.stat().st_mtime_ns for path in index.rglob("*")} == files


def test_other_texts_replace_an_index_by_force(run: Run, index, text, model_folder):
    text.write_text("a bank\n")
    arguments = ("neighbors", "--build", index, "--corpus", text, "-m", model_folder, "--split", "lines")
    assert "choose another folder, or use --force to replace it" in run(*arguments).message()
    answer = run(*arguments, "--force", "--layers", "top")
    assert answer.out == f"{index} has 2 occurrences; layers: 2.\n"


def test_a_folder_of_vectors_is_indexed_where_it_is(run: Run, text, tmp_path, model_folder):
    vectors = tmp_path / "vectors"
    assert run("embed", text, "-m", model_folder, "--layers", "1", "-o", vectors).code == 0
    search = ("neighbors", "the [bank] of England", "--corpus", vectors, "--json")
    assert run(*search).message() == f"{vectors} has no index; build it with elmo neighbors --build {vectors}."
    built = run("neighbors", "--build", vectors, "-m", model_folder)
    assert built.out == f"{vectors} has 19 occurrences; layers: 1.\n"
    assert [layer["layer"] for layer in json.loads(run(*search).out)["layers"]] == [1]
    assert "verified" in run("info", vectors).out


def test_wide_characters_keep_the_columns(run: Run, tmp_path, model_folder):
    path = tmp_path / "text.txt"
    path.write_text("我在银行存钱\nI went to the bank\n")
    answer = run("neighbors", "a [bank]", "--corpus", path, "-m", model_folder, "--top-k", "3", "--layers", "1")
    from elmo.cli.terminal import measure

    lines = answer.out.splitlines()[3:]
    static = {measure(line[: line.rindex("  0.")]) for line in lines[1:] if "  0." in line[10:]}
    assert len(static) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a [b]"], "No corpus was given"),
        (["--corpus", "x.txt"], "Give a sentence with one [marked] word"),
        (["--build", "i"], "i holds no finished vectors"),
        (["--build", "i", "--split", "lines"], "name the files, or leave them out"),
        (["--build", "i", "--corpus", "x.txt", "--layers", "1", "--layers", "2"], "give --layers once"),
        (["a [b]", "--corpus", "nothing.txt"], "No such file: 'nothing.txt'"),
        (["a [b]", "--corpus", "-"], "can be read only once"),
    ],
)
def test_mistakes(run: Run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("words\n")
    assert message in run("neighbors", *arguments).message()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "The sentence 'a b' has 0 marked words"),
        (["a [b]", "--layers", "7"], "The layer is '7'"),
        (
            ["a [b]", "--split", "lines"],
            "INDEX is an index, whose text was read when it was built",
        ),
    ],
)
def test_mistakes_with_an_index(run: Run, index, arguments, message):
    message = message.replace("INDEX", str(index))
    assert run("neighbors", *arguments, "--corpus", index).message().startswith(message)


def test_a_corpus_without_words_and_one_with_the_query_alone(run: Run, tmp_path, model_folder):
    path = tmp_path / "text.txt"
    path.write_text("\n\n")
    arguments = ("neighbors", "a [bank]", "--corpus", path, "-m", model_folder, "--split", "lines")
    assert "Searched 0 occurrences." in run(*arguments).out
    message = run("neighbors", "--build", tmp_path / "index", "--corpus", path, "-m", model_folder).message()
    assert message == "The text has no words; an index needs some."
    path.write_text("a bank\n")
    answer = run(*arguments, "--match", "same")
    assert answer.code == 0 and "No results." in answer.out
    answer = run("neighbors", "my [bank]", "--corpus", path, "-m", model_folder, "--match", "same", "--layers", "top")
    assert answer.code == 0 and answer.out.count("a [bank]") == 1
