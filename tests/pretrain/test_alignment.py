"""Aligning with a teacher: cosines come closer to its, predictions stay, and mistakes are one line."""

import json
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from elmo import Elmo, InputError
from elmo.checkpoint.folder import read_folder
from elmo.cli import main
from elmo.pretrain.alignment import SMALLEST, ReadWords, align
from tests.language_models import make_language_model

from .conftest import make_text
from .tiny_encoder import save_encoder

NOUNS = [
    f"{first}{last}" for first in ("bank", "river", "cat", "tree", "king") for last in ("a", "i", "o", "u", "y")
]


def make_words(num_words=30, num_occurrences=20, *, dim=12, num_meant=4):
    """Words whose contexts move our vectors mostly where the teacher sees nothing."""
    random = np.random.default_rng(0)
    names = [f"w{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(num_words)]
    words = [name for name in names for _ in range(num_occurrences)]
    own = np.repeat(random.normal(size=(3, num_words, 2 * dim)), num_occurrences, axis=1)
    meaning = random.normal(size=(len(words), num_meant))
    layers = own + 2 * random.normal(size=own.shape)
    for side in (slice(0, num_meant), slice(dim, dim + num_meant)):
        layers[1:, :, side] = own[1:, :, side] + meaning
    vectors = np.concatenate(
        [meaning, np.repeat(random.normal(size=(num_words, 3)), num_occurrences, axis=0)], axis=1
    )
    return ReadWords(words, torch.from_numpy(layers).half(), F.normalize(torch.from_numpy(vectors).float(), dim=1))


def test_what_the_teacher_sees_counts_more_than_what_it_does_not():
    read = make_words()
    found = align(read, num_steps=300)
    assert found.after.top > found.before.top + 0.1
    assert found.after.average > found.before.average + 0.1
    lengths = found.layers.norm(dim=1)  # of where each value goes
    assert lengths[:4].min() > 1.2 * lengths[4:].max()
    for matrix in (found.words, found.layers):
        values = torch.linalg.svdvals(matrix)
        assert values.min() >= SMALLEST - 1e-5 and values.max() <= 1 + 1e-5
    few = [align(read, num_steps=5, seed=seed).layers for seed in (0, 0, 1)]
    assert torch.equal(few[0], few[1])
    assert not torch.equal(few[0], few[2])


def test_too_little_text_is_an_error():
    with pytest.raises(InputError, match=r"Of 380 words of text, 19 occur 8 times or more, and at least 20"):
        align(make_words(num_words=19))


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="the extra distill (transformers) is not installed")
    return save_encoder(tmp_path_factory.mktemp("teacher") / "encoder", transformers)


@pytest.fixture
def folders(tmp_path):
    make_language_model().save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(make_text(0, 400, nouns=NOUNS))
    return tmp_path


def test_the_command_writes_a_model_that_predicts_the_same(folders, encoder_folder, capsys):
    names = [str(folders / name) for name in ("model", "text.txt", "aligned")]
    arguments = ["align", *names[:2], "--teacher", str(encoder_folder), "-o", names[2], "--max-words", "3000"]
    assert main(arguments) == 0
    answer = capsys.readouterr().out
    number = r"(-?\d\.\d{3})"
    told = re.fullmatch(
        r"Wrote .*aligned \(words read: (3,0\d\d)\)\. Correlation of cosines among occurrences of a word with the "
        rf"teacher's, mean over held-out words: top layer {number} before, {number} now; average of the layers "
        rf"{number} before, {number} now\.\n",
        answer,
    )
    assert told and float(told[3]) > float(told[2]) and float(told[5]) > float(told[4])
    before, after = (Elmo.from_pretrained(names[place]) for place in (0, 2))
    sentence = ["the", "river", "bank", "."]
    (old,), (new,) = before.score([sentence]), after.score([sentence])
    np.testing.assert_allclose(new.left_to_right, old.left_to_right, atol=1e-3)
    assert np.abs(after.embed([sentence])[0] - before.embed([sentence])[0]).max() > 0.01
    assert main(arguments) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_tables_are_read_as_elmo_prepare_reads_them(folders, encoder_folder, capsys, kind):
    documents = (folders / "text.txt").read_text().splitlines()
    (folders / "text.txt").write_text("\n\n".join(documents))
    table = folders / f"table.{kind}"
    if kind == "jsonl":
        table.write_text("".join(json.dumps({"body": document}) + "\n" for document in documents))
    else:
        pyarrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"body": documents}), table)
    options = ["--teacher", str(encoder_folder), "--max-words", "3000", "-o"]
    assert main(["align", str(folders / "model"), str(folders / "text.txt"), *options, str(folders / "one")]) == 0
    arguments = ["align", str(folders / "model"), str(table), *options, str(folders / "two")]
    assert main([*arguments, "--column", "body"]) == 0
    one, two = (read_folder(folders / name).weights for name in ("one", "two"))
    assert all(torch.equal(weight, two[name]) for name, weight in one.items())
    capsys.readouterr()
    assert main([*arguments, "--force"]) == 2
    assert "'text'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--max-words", "0"], "--max-words is 0; give 1 or more"),
        (["--seed", "-1"], "--seed is -1; give 0 or more"),
        (["--max-words", "40"], "give more text"),
        (["--teacher", "nowhere/at-all", "--local-files-only"], "nowhere/at-all"),
    ],
    ids=["words", "seed", "text", "teacher"],
)
def test_what_cannot_be_is_one_line(folders, encoder_folder, capsys, monkeypatch, changes, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    arguments = ["align", str(folders / "model"), str(folders / "text.txt"), "--teacher", str(encoder_folder)]
    assert main([*arguments, "-o", str(folders / "aligned"), *changes]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert not (folders / "aligned").exists()
