import json
import pickle
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from torch.utils.data import DataLoader

from elmo import Elmo, vectors
from elmo.errors import ConfigError, InputError
from elmo.files.work_folder import FolderKind
from elmo.vectors import VectorSettings, embed_files, writing
from tests.vectors.conftest import PART_BYTES, SENTENCES, read_all

SETTINGS = VectorSettings(part_bytes=PART_BYTES, file_format="parquet")


@pytest.fixture(scope="module")
def expected(tiny_model: Elmo) -> list[np.ndarray]:
    return tiny_model.embed(SENTENCES)


def test_a_folder_has_one_row_per_sentence_in_order(tiny_model, text_file, tmp_path, expected):
    vectors = embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert len(vectors) == len(SENTENCES) and len(vectors.manifest["parts"]) > 3
    for number, row in enumerate(vectors):
        assert (row.index, row.id) == (number, None)
        assert row.words == [word.text for word in tiny_model.tokenize(SENTENCES[number])]
        assert row.vectors.dtype == np.float32 and row.vectors.shape == expected[number].shape
        np.testing.assert_allclose(row.vectors, expected[number], atol=1e-6)
    counts = vectors.manifest["counts"]
    num_words = sum(map(len, expected))
    assert counts == {
        "num_rows": 60,
        "num_written": 60,
        "num_without_span": 0,
        "num_words": num_words,
        "num_vectors": num_words,
        "num_rejected": 0,
    }
    assert sorted(read_all(tmp_path / "out")) == sorted(
        ["manifest.json", *(f"part-{number:05d}.parquet" for number in range(len(vectors.manifest["parts"])))]
    )


NUMBERS = [("float32", "all"), ("float16", "top"), ("int8", "all"), ("int8", (0.5, 0.25, 0.25))]
FORMS = [
    *(("parquet", dtype, layers, unit) for dtype, layers in NUMBERS for unit in ("words", "sentences", "spans")),
    *(("npy", "int8", "all", unit) for unit in ("words", "sentences", "spans")),
    ("npy", "float16", "concat", "words"),
]


@pytest.mark.parametrize(("file_format", "dtype", "layers", "unit"), FORMS)
def test_every_format_returns_the_vectors_of_the_model(
    tiny_model, text_file, tmp_path, file_format, dtype, layers, unit
):
    only = ("bank", "river") if unit == "spans" else ()
    settings = VectorSettings(unit=unit, layers=layers, file_format=file_format, dtype=dtype, only_words=only)
    vectors = embed_files(tiny_model, [text_file], tmp_path / "out", replace(settings, part_bytes=PART_BYTES))
    words = [[word.text for word in tiny_model.tokenize(sentence)] for sentence in SENTENCES]
    if unit == "words":
        expected = tiny_model.embed(words, layers=layers)
    elif unit == "sentences":
        expected = list(tiny_model.encode(words, layers=layers))
    else:
        words = [sentence for sentence in words if "bank" in sentence]
        spans = [[(n, n + 1) for n, word in enumerate(sentence) if word in only] for sentence in words]
        arrays = tiny_model.embed(words, layers=layers)
        by_word = [array.transpose(1, 0, 2) if array.ndim == 3 else array for array in arrays]
        expected = [array[[start for start, _ in each]] for array, each in zip(by_word, spans, strict=True)]
        assert [row.spans for row in vectors] == spans
        assert vectors.manifest["counts"]["num_without_span"] == 1
    assert [row.words for row in vectors] == words
    for row, array in zip(vectors, expected, strict=True):
        assert row.vectors.shape == array.shape
        bounds = {"float32": 1e-6, "float16": 1e-3, "int8": np.abs(array).max(initial=0) / 127}
        np.testing.assert_allclose(row.vectors.astype(np.float32), array, atol=bounds[dtype])


def test_the_same_job_is_the_same_to_the_last_byte(tiny_model, text_file, tmp_path):
    for name in ("one", "two"):
        embed_files(tiny_model, [text_file], tmp_path / name, SETTINGS)
    assert read_all(tmp_path / "one") == read_all(tmp_path / "two")


class StopError(Exception):
    pass


@pytest.mark.parametrize("at", ["begin", "written", "named", "recorded"])
def test_a_run_stopped_anywhere_resumes(tiny_model, text_file, tmp_path, monkeypatch, at):
    whole = embed_files(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    written: list[int] = []
    compute, finish = writing.write_part_files, writing.commit_part

    def stop_before(part, *arguments):
        if part.number == 2 and at == "begin":
            raise StopError
        return compute(part, *arguments)

    def stop_in_finish(job, temporary, record):
        if record.number == 2 and at == "written":
            raise StopError
        record = finish(job, temporary, record)
        written.append(record.number)
        if record.number == 2 and at == "recorded":
            raise StopError
        return record

    def stop_unrecorded(output, record):
        if record.number == 2 and at == "named":
            raise StopError
        write_record(output, record)

    write_record = writing.write_part_record
    monkeypatch.setattr(writing, "write_part_files", stop_before)
    monkeypatch.setattr(writing, "commit_part", stop_in_finish)
    monkeypatch.setattr(writing, "write_part_record", stop_unrecorded)
    with pytest.raises(StopError):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(InputError, match="holds no finished vectors"):
        vectors.open(tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(writing, "commit_part", lambda *all: (written.append(all[2].number), finish(*all))[1])
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert written == list(range(len(whole.manifest["parts"])))  # none left out, none done twice
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_a_part_that_was_lost_is_made_again(tiny_model, text_file, tmp_path, monkeypatch):
    embed_files(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    monkeypatch.setattr(FolderKind, "finish", lambda *all: (_ for _ in ()).throw(StopError))
    with pytest.raises(StopError):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    monkeypatch.undo()
    part = tmp_path / "out" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_a_finished_folder_is_not_written_again(tiny_model, text_file, tmp_path):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == times


def test_a_folder_of_another_job_is_refused_or_replaced(tiny_model, text_file, tmp_path):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    other = replace(SETTINGS, layers="top", part_bytes=10**6)
    with pytest.raises(InputError, match='layers was "average" and is now "top"'):
        embed_files(tiny_model, [text_file], tmp_path / "out", other)
    vectors = embed_files(tiny_model, [text_file], tmp_path / "out", other, force=True)
    np.testing.assert_allclose(vectors[0].vectors, tiny_model.embed(SENTENCES[0], layers="top"), atol=1e-6)
    assert sorted(read_all(tmp_path / "out")) == ["manifest.json", "part-00000.parquet"]
    text_file.write_text("other\n")
    with pytest.raises(InputError, match="its input files are not those given now"):
        embed_files(tiny_model, [text_file], tmp_path / "out", other)
    model = Elmo.from_config(tiny_model.config, seed=1)
    with pytest.raises(InputError, match="the model's content_hash was"):
        embed_files(model, [text_file], tmp_path / "out", other)


def test_changed_input_of_the_same_size_and_ends_is_noticed(tiny_model, tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"sentence {number} {'x' * 1000}\n" for number in range(150)))
    settings = VectorSettings(unit="sentences", part_bytes=50_000)
    monkeypatch.setattr(FolderKind, "finish", lambda *all: (_ for _ in ()).throw(StopError))
    with pytest.raises(StopError):
        embed_files(tiny_model, [path], tmp_path / "out", settings)
    monkeypatch.undo()
    path.write_text(path.read_text().replace("sentence 75 ", "sentence 57 "))
    opened = embed_files(tiny_model, [path], tmp_path / "out", settings)
    assert opened[75].words[:2] == ["sentence", "57"]


def test_a_folder_with_other_files_is_refused(tiny_model, text_file, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\)"):
        embed_files(tiny_model, [text_file], tmp_path / "mine", SETTINGS)
    with pytest.raises(InputError, match="is a file; name a folder"):
        embed_files(tiny_model, [text_file], text_file, SETTINGS)


def test_rows_by_slice_index_and_id(tiny_model, tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"id": f"row {number}", "text": sentence}) for number, sentence in enumerate(SENTENCES)]
    lines[3] = "{broken"
    lines[4] = json.dumps({"id": "row 5", "text": "twice"})
    path.write_text("\n".join(lines))
    vectors = embed_files(tiny_model, [path], tmp_path / "out", SETTINGS, on_error="reject")
    assert len(vectors) == len(SENTENCES) - 1 and vectors[3].index == 4
    assert vectors.by_id("row 10").id == vectors[-50].id == "row 10"
    part = vectors[10:20][::2]
    assert [row.index for row in part] == [11, 13, 15, 17, 19] and len(part[:2]) == 2
    assert [row.index for row in pickle.loads(pickle.dumps(part))] == [11, 13, 15, 17, 19]
    for given_id, number in (("row 5", 2), ("row 3", 0)):
        with pytest.raises(InputError, match=f"{number} rows of .* have the id '{given_id}'"):
            vectors.by_id(given_id)
    with pytest.raises(IndexError):
        vectors[59]


def test_npy_arrays_are_views_of_the_file(tiny_model, text_file, tmp_path):
    vectors = embed_files(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, file_format="npy"))
    array, again = vectors[0].vectors, vectors[0].vectors
    assert np.shares_memory(array, again)
    array[0, 0] = 5  # a change stays in memory
    assert np.load(tmp_path / "out" / "part-00000.vectors.npy")[0, 0] != 5


def test_a_folder_is_a_dataset_for_torch(tiny_model, text_file, tmp_path, expected):
    vectors = embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    batches = list(DataLoader(vectors, batch_size=16, collate_fn=lambda rows: [row.vectors for row in rows]))
    assert [len(batch) for batch in batches] == [16, 16, 16, 12]
    np.testing.assert_allclose(batches[1][0], expected[16], atol=1e-6)


def test_no_rows_are_a_folder_of_none(tiny_model, tmp_path):
    (tmp_path / "empty.txt").touch()
    vectors = embed_files(tiny_model, [tmp_path / "empty.txt"], tmp_path / "out", SETTINGS)
    assert len(vectors) == 0 and list(vectors) == []


def test_moving_a_folder_changes_nothing(tiny_model, text_file, tmp_path):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    shutil.move(tmp_path / "out", tmp_path / "moved")
    text_file.unlink()
    assert len(vectors.open(tmp_path / "moved")) == 60


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "letters"}, "unit is 'letters'"),
        (
            {"dtype": "int4", "part_bytes": 0},
            "dtype is 'int4'.*part_bytes is 0",
        ),
        ({"unit": "spans"}, "chosen by either only_words or spans"),
        ({"only_words": ("bank",)}, "unit is 'words'"),
        ({"normalize": True}, "pooling and normalize are for sentence vectors, but unit is 'words'"),
    ],
)
def test_settings_that_contradict_each_other(changes, message):
    with pytest.raises(ConfigError, match=message):
        VectorSettings(**changes)


def test_layers_that_the_model_has_not_leave_no_folder(tiny_model, text_file, tmp_path):
    with pytest.raises(InputError, match="layers is 7; choose 'auto'"):
        embed_files(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, layers=7))
    assert not (tmp_path / "out").exists()


@pytest.mark.needs("resource")
def test_a_full_disk_stops_and_goes_on(tiny_model, text_file, tmp_path):
    import resource

    embed_files(tiny_model, [text_file], tmp_path / "whole", replace(SETTINGS, part_bytes=1500))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))  # a full disk that any user can make
    try:
        with pytest.raises(OSError, match="File too large"):
            embed_files(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, part_bytes=1500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "out").glob("part-*")) and not list((tmp_path / "out").rglob("part-*-*"))
    embed_files(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, part_bytes=1500))
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_threads_are_shared_between_workers(monkeypatch):
    monkeypatch.setattr("elmo.vectors.writing.count_cores", lambda: 8)
    assert writing.plan_workers(None, None) == (4, 2) and writing.plan_workers(8, None) == (8, 1)
    assert writing.plan_workers(None, 3) == (2, 1) and writing.plan_workers(20, None) == (20, 1)
    assert writing.plan_workers(None, None, on_cpu=False) == (1, 1)
    assert writing.plan_workers(1, 8) == (1, 2)


def test_calls_that_contradict_themselves(tiny_model, text_file, tmp_path):
    with pytest.raises(InputError, match="The engine 'spark' is unknown"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, engine="spark")
    with pytest.raises(InputError, match="on_error is 'skip'"):
        embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, on_error="skip")
    carrying = Elmo(tiny_model.checkpoint(), state="carry")
    with pytest.raises(InputError, match="so state must be 'zero'"):
        embed_files(carrying, [text_file], tmp_path / "out", SETTINGS)
    assert not (tmp_path / "out").exists()


def test_a_finished_folder_is_not_removed_for_a_call_that_cannot_be(tiny_model, text_file, tmp_path, monkeypatch):
    embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    before = read_all(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ray", None)
    for wrong in ({"num_workers": 0}, {"engine": "ray"}):
        with pytest.raises((ConfigError, InputError)):
            embed_files(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True, **wrong)
        assert read_all(tmp_path / "out") == before


def test_a_row_that_only_the_model_finds_broken_stops_the_job_or_is_listed(tiny_model, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "I went", "at": [[0, 1]]}\n')
    (tmp_path / "b.jsonl").write_text('\n{"text": "I went", "at": [[0, 9]]}\n{"text": "I went", "at": [[1, 2]]}\n')
    names, settings = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], VectorSettings(unit="spans", spans="at")
    for _ in range(2):  # also where the part is finished already
        with pytest.raises(
            InputError, match=r"b.jsonl, line 2, has the span \[0, 9\].*; use --on-error reject to skip"
        ):
            embed_files(tiny_model, names, tmp_path / "out", settings)
        assert not (tmp_path / "out" / "manifest.json").exists()
    vectors = embed_files(tiny_model, names, tmp_path / "out", settings, on_error="reject")
    assert [row.index for row in vectors] == [0, 2] and vectors.counts.num_rejected == 1
    assert [file["num_rows"] for file in vectors.manifest["inputs"]] == [1, 2]
    (reject,) = map(json.loads, (tmp_path / "out" / "rejects.jsonl").read_text().splitlines())
    assert (reject["index"], reject["input"], reject["line"]) == (1, str(tmp_path / "b.jsonl"), 2)
