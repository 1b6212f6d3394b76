import json
import pickle
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from elmo import Elmo, vectors
from elmo.errors import ConfigError, InputError
from elmo.vectors import JobSettings, part_writer, run_job
from elmo.vectors.engines import share_threads
from elmo.vectors.part_writer import PartWriter
from elmo.vectors.torch_dataset import pad
from tests.vectors.conftest import PART_BYTES, SENTENCES, read_all

SETTINGS = JobSettings(part_bytes=PART_BYTES)


@pytest.fixture(scope="module")
def expected(tiny_model: Elmo) -> list[np.ndarray]:
    return tiny_model.embed(SENTENCES)


def test_a_folder_holds_a_row_a_sentence_in_order(tiny_model, text_file, tmp_path, expected):
    vectors = run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert len(vectors) == len(SENTENCES) and len(vectors.manifest.parts) > 3
    for number, row in enumerate(vectors):
        assert (row.index, row.id) == (number, None)
        assert row.words == [word.text for word in tiny_model.tokenize(SENTENCES[number])]
        assert row.vectors.dtype == np.float32 and row.vectors.shape == expected[number].shape
        np.testing.assert_allclose(row.vectors, expected[number], atol=1e-6)
    counts = vectors.manifest.values["counts"]
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
        ["manifest.json", *(f"part-{number:05d}.parquet" for number in range(len(vectors.manifest.parts)))]
    )


NUMBERS = [("float32", "all"), ("float16", "top"), ("int8", "all"), ("int8", (0.5, 0.25, 0.25))]
FORMS = [
    *(("parquet", dtype, layers, unit) for dtype, layers in NUMBERS for unit in ("words", "sentences", "spans")),
    *((form, "int8", "all", unit) for form in ("npy", "hdf5") for unit in ("words", "sentences", "spans")),
    *((form, "float16", "concat", "words") for form in ("npy", "hdf5")),
]


@pytest.mark.parametrize(("file_format", "dtype", "layers", "unit"), FORMS)
def test_every_form_reads_back_what_the_model_gives(
    tiny_model, text_file, tmp_path, file_format, dtype, layers, unit
):
    only = ("bank", "river") if unit == "spans" else ()
    settings = JobSettings(unit=unit, layers=layers, file_format=file_format, dtype=dtype, only_words=only)
    vectors = run_job(tiny_model, [text_file], tmp_path / "out", replace(settings, part_bytes=PART_BYTES))
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
        assert vectors.manifest.values["counts"]["num_without_span"] == 1
    assert [row.words for row in vectors] == words
    for row, array in zip(vectors, expected, strict=True):
        assert row.vectors.shape == array.shape
        bounds = {"float32": 1e-6, "float16": 1e-3, "int8": np.abs(array).max(initial=0) / 127}
        np.testing.assert_allclose(row.vectors.astype(np.float32), array, atol=bounds[dtype])


def test_the_same_job_is_the_same_to_the_last_byte(tiny_model, text_file, tmp_path):
    for name in ("one", "two"):
        run_job(tiny_model, [text_file], tmp_path / name, SETTINGS)
    assert read_all(tmp_path / "one") == read_all(tmp_path / "two")


class StopError(Exception):
    pass


@pytest.mark.parametrize("at", ["begin", "written", "named", "recorded"])
def test_a_run_stopped_anywhere_goes_on(tiny_model, text_file, tmp_path, monkeypatch, at):
    whole = run_job(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    written: list[int] = []
    begin, finish = PartWriter.begin, PartWriter._finish

    def stop_before(self, part, report):
        if part.number == 2 and at == "begin":
            raise StopError
        return begin(self, part, report)

    def stop_in_finish(self, aside, record):
        if record.number == 2 and at == "written":
            raise StopError
        record = finish(self, aside, record)
        written.append(record.number)
        if record.number == 2 and at == "recorded":
            raise StopError
        return record

    def stop_unrecorded(output, record):
        if record.number == 2 and at == "named":
            raise StopError
        write_record(output, record)

    write_record = part_writer.write_part_record
    monkeypatch.setattr(PartWriter, "begin", stop_before)
    monkeypatch.setattr(PartWriter, "_finish", stop_in_finish)
    monkeypatch.setattr(part_writer, "write_part_record", stop_unrecorded)
    with pytest.raises(StopError):
        run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(InputError, match="holds no finished vectors"):
        vectors.open(tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(PartWriter, "_finish", lambda *all: (written.append(all[2].number), finish(*all))[1])
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert written == list(range(len(whole.manifest.parts)))  # none left out, none done twice
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_a_part_that_was_lost_is_made_again(tiny_model, text_file, tmp_path, monkeypatch):
    run_job(tiny_model, [text_file], tmp_path / "whole", SETTINGS)
    monkeypatch.setattr(vectors.job._Job, "_finish", lambda *all: (_ for _ in ()).throw(StopError))
    with pytest.raises(StopError):
        run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    monkeypatch.undo()
    part = tmp_path / "out" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_a_finished_folder_is_not_written_again(tiny_model, text_file, tmp_path):
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == times


def test_a_folder_of_another_job_is_refused_or_replaced(tiny_model, text_file, tmp_path):
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    other = replace(SETTINGS, layers="top", part_bytes=10**6)
    with pytest.raises(InputError, match='layers was "average" and is now "top"'):
        run_job(tiny_model, [text_file], tmp_path / "out", other)
    vectors = run_job(tiny_model, [text_file], tmp_path / "out", other, force=True)
    np.testing.assert_allclose(vectors[0].vectors, tiny_model.embed(SENTENCES[0], layers="top"), atol=1e-6)
    assert sorted(read_all(tmp_path / "out")) == ["manifest.json", "part-00000.parquet"]
    text_file.write_text("other\n")
    with pytest.raises(InputError, match="its 1 input files are not the 1 given now"):
        run_job(tiny_model, [text_file], tmp_path / "out", other)
    model = Elmo.from_config(tiny_model.config, seed=1)
    with pytest.raises(InputError, match="the model's content_hash was"):
        run_job(model, [text_file], tmp_path / "out", other)


def test_changed_input_of_the_same_size_and_ends_is_noticed(tiny_model, tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"sentence {number} {'x' * 1000}\n" for number in range(150)))
    settings = JobSettings(unit="sentences", part_bytes=50_000)
    monkeypatch.setattr("elmo.vectors.job._Job._finish", lambda *all: (_ for _ in ()).throw(StopError))
    with pytest.raises(StopError):
        run_job(tiny_model, [path], tmp_path / "out", settings)
    monkeypatch.undo()
    path.write_text(path.read_text().replace("sentence 75 ", "sentence 57 "))
    opened = run_job(tiny_model, [path], tmp_path / "out", settings)
    assert opened[75].words[:2] == ["sentence", "57"]


def test_a_folder_with_other_files_is_refused(tiny_model, text_file, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\); give a new or empty folder"):
        run_job(tiny_model, [text_file], tmp_path / "mine", SETTINGS)
    with pytest.raises(InputError, match="is a file; give a folder"):
        run_job(tiny_model, [text_file], text_file, SETTINGS)


def test_rows_by_slice_index_and_id(tiny_model, tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"id": f"row {number}", "text": sentence}) for number, sentence in enumerate(SENTENCES)]
    lines[3] = "{broken"
    lines[4] = json.dumps({"id": "row 5", "text": "twice"})
    path.write_text("\n".join(lines))
    vectors = run_job(tiny_model, [path], tmp_path / "out", SETTINGS, on_error="reject")
    assert len(vectors) == len(SENTENCES) - 1 and vectors[3].index == 4
    assert vectors.by_index(10).id == "row 10" == vectors.by_id("row 10").id == vectors[-50].id
    part = vectors[10:20][::2]
    assert [row.index for row in part] == [11, 13, 15, 17, 19] and len(part[:2]) == 2
    assert [row.index for row in pickle.loads(pickle.dumps(part))] == [11, 13, 15, 17, 19]
    with pytest.raises(InputError, match="has no row of the index 3 here"):
        vectors.by_index(3)
    with pytest.raises(InputError, match="'row 5' stands at several rows"):
        vectors.by_id("row 5")
    with pytest.raises(IndexError):
        vectors[59]


def test_npy_arrays_are_views_of_the_file(tiny_model, text_file, tmp_path):
    vectors = run_job(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, file_format="npy"))
    array, again = vectors[0].vectors, vectors[0].vectors
    assert np.shares_memory(array, again)
    array[0, 0] = 5  # a change stays in memory
    assert np.load(tmp_path / "out" / "part-00000.vectors.npy")[0, 0] != 5


@pytest.mark.parametrize("file_format", ["parquet", "npy", "hdf5"])
def test_a_torch_dataset_in_padded_batches(tiny_model, text_file, tmp_path, expected, file_format):
    vectors = run_job(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, file_format=file_format))
    batches = list(DataLoader(vectors.to_torch(), batch_size=16, collate_fn=pad))
    assert [len(batch["words"]) for batch in batches] == [16, 16, 16, 12]
    batch = batches[0]
    assert batch["mask"].sum(1).tolist() == [len(array) for array in expected[:16]]
    assert torch.allclose(
        batch["vectors"][batch["mask"]], torch.from_numpy(np.concatenate(expected[:16])), atol=1e-6
    )


def test_no_rows_are_a_folder_of_none(tiny_model, tmp_path):
    (tmp_path / "empty.txt").touch()
    vectors = run_job(tiny_model, [tmp_path / "empty.txt"], tmp_path / "out", SETTINGS)
    assert len(vectors) == 0 and list(vectors) == []


def test_moving_a_folder_changes_nothing(tiny_model, text_file, tmp_path):
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    shutil.move(tmp_path / "out", tmp_path / "moved")
    text_file.unlink()
    assert len(vectors.open(tmp_path / "moved")) == 60


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "letters"}, "unit is 'letters'; choose one of words, sentences, spans"),
        ({"dtype": "int4", "part_bytes": 0}, "dtype is 'int4'.*part_bytes is 0; give a whole number, 1 or more"),
        ({"unit": "spans"}, "need either only_words or the column spans"),
        ({"only_words": ("bank",)}, "unit is 'words'; make it 'spans'"),
        ({"normalize": True}, "pooling and normalize make sentence vectors, but unit is 'words'"),
    ],
)
def test_settings_that_contradict_each_other(changes, message):
    with pytest.raises(ConfigError, match=message):
        JobSettings(**changes)


def test_layers_that_the_model_has_not_leave_no_folder(tiny_model, text_file, tmp_path):
    with pytest.raises(InputError, match="layers is 7; give 'average'"):
        run_job(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, layers=7))
    assert not (tmp_path / "out").exists()


def test_a_full_disk_stops_and_goes_on(tiny_model, text_file, tmp_path):
    resource = pytest.importorskip("resource")
    run_job(tiny_model, [text_file], tmp_path / "whole", replace(SETTINGS, part_bytes=1500))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))  # a full disk that any user can make
    try:
        with pytest.raises(InputError, match="There is no space left for .*: it resumes where it stopped"):
            run_job(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, part_bytes=1500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "out").glob("part-*")) and not list((tmp_path / "out").rglob("part-*-*"))
    run_job(tiny_model, [text_file], tmp_path / "out", replace(SETTINGS, part_bytes=1500))
    assert read_all(tmp_path / "out") == read_all(tmp_path / "whole")


def test_threads_are_shared_between_workers(monkeypatch):
    monkeypatch.setattr("elmo.vectors.engines.count_cores", lambda: 8)
    assert share_threads(None, None) == (4, 2) and share_threads(8, None) == (8, 1)
    assert share_threads(None, 3) == (2, 1) and share_threads(20, None) == (20, 1)
    assert share_threads(None, None, on_cpu=False) == (1, 1)
    with pytest.raises(InputError, match="but a worker uses at most 2, and --workers is 1; give --workers 4, or"):
        share_threads(1, 8)


def test_calls_that_contradict_themselves(tiny_model, text_file, tmp_path):
    with pytest.raises(InputError, match="threads are shared by workers, but none were asked for"):
        run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS, threads=2)
    with pytest.raises(InputError, match="The engine 'spark' is not known; choose local or ray"):
        run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS, engine="spark")
    with pytest.raises(InputError, match="on_error is 'skip'; choose 'stop' or 'reject'"):
        run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS, on_error="skip")
    carrying = Elmo(tiny_model.checkpoint(), state="carry")
    with pytest.raises(InputError, match="use a model of state='zero'"):
        run_job(carrying, [text_file], tmp_path / "out", SETTINGS)
    assert not (tmp_path / "out").exists()


def test_a_finished_folder_is_not_removed_for_a_call_that_cannot_be(tiny_model, text_file, tmp_path, monkeypatch):
    run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS)
    before = read_all(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ray", None)
    for wrong in ({"workers": 0}, {"workers": 1, "threads": 64}, {"engine": "ray"}):
        with pytest.raises(InputError):
            run_job(tiny_model, [text_file], tmp_path / "out", SETTINGS, force=True, **wrong)
        assert read_all(tmp_path / "out") == before
