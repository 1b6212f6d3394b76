"""Labelled data in memory and files: tables, folders, patterns, Parquet, TREC, other encodings."""

import json

import pytest

from elmo import InputError
from elmo.tasks import load, resume, train
from elmo.tasks.readers import read_examples
from elmo.tasks.readers.records import to_source
from elmo.tasks.settings import ReadSettings
from tests.tasks.toys import ANIMALS, SMALL

TEXTS = [f"look , a {animal} here" for animal in ANIMALS] * 4
LABELS = list(ANIMALS.values()) * 4
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
QUICK = {**SMALL, "elmo.where": "none", "network.kind": "pooled"}


def read(source, family="classification", **options):
    return read_examples(str(source), family, ReadSettings(**options))[0]


def as_frame(rows):
    return pytest.importorskip("pandas").DataFrame(rows)


def as_dataset(rows):
    return pytest.importorskip("datasets").Dataset.from_list(rows)


@pytest.mark.parametrize("convert", [list, as_frame, as_dataset, lambda rows: (TEXTS, LABELS)])
def test_data_in_memory_are_the_same_records(convert):
    records = to_source(convert(ROWS), "classification", "train")
    assert list(records.rows) == ROWS


def test_a_task_is_trained_on_a_table_in_memory_and_can_be_resumed(tmp_path):
    result = train(as_frame(ROWS), kind="sentiment", test=(TEXTS, LABELS), output=tmp_path / "run", settings=QUICK)
    assert result.test["accuracy"] > 90
    assert resume(tmp_path / "run").test == result.test
    task = load(tmp_path / "run")
    assert task.evaluate(ROWS) == result.test
    assert [each.label for each in task.predict(["a rat", "a cat"])] == ["bad", "good"]
    stored = json.loads((tmp_path / "run" / "training" / "run.json").read_text())
    assert stored["inputs"]["train"].endswith("train.jsonl")


CIRCULAR: list = []
CIRCULAR.append(CIRCULAR)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "train is int; it must be the name of a file"),
        ([], "train has no rows"),
        (["a text"], "row 1 is 'a text'"),
        ((["a", "b"], ["x"]), "2 texts and 1 labels"),
        ([{"text": {(1, 2): "a"}}], "train has a value that JSON cannot represent"),
        ([{"text": CIRCULAR}], "cannot represent .Circular reference"),
    ],
)
def test_other_objects_are_rejected_by_type(data, message):
    with pytest.raises(InputError, match=message):
        to_source(data, "classification", "train")


def test_a_row_without_its_label_is_named_by_its_number(tmp_path):
    with pytest.raises(InputError, match="train, row 2: the label"):
        train([*ROWS[:1], {"text": "a"}], kind="sentiment", output=tmp_path / "run", settings=QUICK)
    assert not (tmp_path / "run").exists()


def test_a_folder_per_label_has_one_text_per_file(tmp_path):
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for number in range(2):
            (tmp_path / label / f"{number}.txt").write_text(f"text {number}\nof {label}")
    examples = read(tmp_path)
    assert [(" ".join(example.words), example.label) for example in examples] == [
        ("text 0 of neg", "neg"), ("text 1 of neg", "neg"), ("text 0 of pos", "pos"), ("text 1 of pos", "pos"),
    ]  # fmt: skip
    with pytest.raises(InputError, match="without a folder of texts per label"):
        read(tmp_path / "neg")


def test_a_pattern_means_several_files(tmp_path):
    for number in range(3):
        (tmp_path / f"part{number}.conll").write_text(f"word{number} X\n\n")
    assert [example.words for example in read(tmp_path / "part*.conll", "tagging")] == [
        ("word0",), ("word1",), ("word2",)
    ]  # fmt: skip
    with pytest.raises(InputError, match="No file matches"):
        read(tmp_path / "none*.conll", "tagging")


def test_parquet_is_a_table(tmp_path):
    pytest.importorskip("pyarrow")
    as_frame(ROWS).to_parquet(tmp_path / "rows.parquet")
    assert [example.label for example in read(tmp_path / "rows.parquet")] == LABELS


def test_trec_has_labels_and_sublabels(tmp_path):
    (tmp_path / "trec.txt").write_text("NUM:dist How far is it ?\nHUM:ind Who came ?\n")
    assert [example.label for example in read(tmp_path / "trec.txt", format="trec")] == ["NUM", "HUM"]
    assert [example.label for example in read(tmp_path / "trec.txt", format="trec", label_column="sublabel")] == [
        "dist",
        "ind",
    ]


def test_an_encoding_is_named_in_the_error_and_read_with_its_flag(tmp_path):
    (tmp_path / "old.csv").write_bytes("text,label\ncafé,a\nthé,b\n".encode("latin-1"))
    with pytest.raises(InputError, match="line 2, is not UTF-8"):
        read(tmp_path / "old.csv")
    assert [example.words for example in read(tmp_path / "old.csv", encoding="latin-1")] == [("café",), ("thé",)]
    with pytest.raises(InputError, match="--encoding 'klingon' is not known"):
        read(tmp_path / "old.csv", encoding="klingon")


def test_columns_are_named_by_two_flags(tmp_path):
    (tmp_path / "odd.csv").write_text("body,text,mood\nit rains,1,sad\nit shines,2,glad\n")
    examples = read(tmp_path / "odd.csv", text_column="body", label_column="mood")
    assert [(example.words[-1], example.label) for example in examples] == [("rains", "sad"), ("shines", "glad")]
    with pytest.raises(InputError, match="has no column 'nothing'"):
        read(tmp_path / "odd.csv", text_column="nothing")
    with pytest.raises(InputError, match="--text-column"):
        read(tmp_path / "odd.csv", "pairs", text_column="body")


def test_a_constant_tag_column_is_rejected(tmp_path):
    (tmp_path / "constant.conll").write_text("EU B-ORG 0\nsaid O 0\n\nParis B-LOC 0\n\n" * 3)
    options = {"kind": "ner", "settings": {**SMALL, "elmo.where": "none"}}
    with pytest.raises(InputError, match="all tags are '0' .column 3.*--label-column"):
        train(tmp_path / "constant.conll", output=tmp_path / "run", **options)
