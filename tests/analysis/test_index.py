"""An index returns the same results as a scan of the text, and a killed build can be resumed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from elmo import CheckpointError, ConfigError, InputError
from elmo.analysis import CorpusIndex, TextSettings, build_index, compare_words, find_neighbors, find_occurrences
from elmo.analysis import index as building
from elmo.analysis.occurrences import Occurrence, join_words
from elmo.analysis.vector_file import VectorFile, write_vectors
from elmo.inference.context import normalize
from elmo.vectors import VectorSettings, embed_files

QUERY = "We want to [play] in the garden"


def cosines(found):
    return [each.cosine for layer in found.layers.values() for each in layer]


def list_files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def index(model, texts, tmp_path):
    return build_index(model, tmp_path / "index", texts)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"words": "same"},
        {"words": "other"},
        {"layers": ["top"], "top_k": 3},
    ],
)
def test_an_index_gives_the_neighbors_that_a_scan_gives(model, texts, index, asked):
    asked = {"top_k": 6, **asked}
    searched, scanned = find_neighbors(model, QUERY, index, **asked), find_neighbors(model, QUERY, texts, **asked)
    assert cosines(searched) == pytest.approx(cosines(scanned), abs=0.01)
    assert searched.num_occurrences == scanned.num_occurrences > 0
    for layer, neighbors in searched.layers.items():
        for each in neighbors:
            words, start = each.occurrence.sentence.words, each.occurrence.start
            other = Occurrence(join_words(words, "text", 0), start, start + 1)
            exact = compare_words(model, [QUERY, other], layers=layer).cosines[0, 1]
            assert each.cosine == pytest.approx(exact, abs=0.01)
    if asked.get("words") == "same":
        assert {each.occurrence.word for layer in searched.layers.values() for each in layer} == {"play"}
    if asked.get("words") == "other":
        assert "play" not in {each.occurrence.word for layer in searched.layers.values() for each in layer}


def test_the_static_column_does_not_depend_on_the_sentence(model, index):
    one, other = (find_neighbors(model, text, index) for text in (QUERY, "a [play] about nothing"))
    assert one.static == other.static
    assert "play" not in [each.word.lower() for each in one.static]
    assert list(one.layers.values())[-1] != list(other.layers.values())[-1]


def test_a_form_with_capitals_is_the_same_word(model, index):
    found = find_neighbors(model, "my [BANK] account", index, words="same", top_k=50)
    assert {each.occurrence.word for each in next(iter(found.layers.values()))} == {"bank", "Bank"}
    occurrences, count = index.find_occurrences("bank", max_occurrences=1000)
    assert count == len(occurrences) == 3 * 13
    drawn, count = index.find_occurrences("bank", max_occurrences=5, seed=3)
    assert len(drawn) == 5 and count == 39 and set(drawn) <= set(occurrences)


@pytest.mark.parametrize("split", ["sentences", "lines", "none"])
def test_an_index_and_a_scan_number_sentences_alike(model, tmp_path, split):
    text = tmp_path / "text.txt"
    text.write_text("a bank\n\n \nthe old bank\n")
    settings = TextSettings(split=split)
    index = build_index(model, tmp_path / "index", [str(text)], reading=settings)
    searched = index.find_occurrences("bank", max_occurrences=9)
    assert searched == find_occurrences([str(text)], "bank", reading=settings)
    if split == "lines":  # the numbers of lines, from 0
        assert [occurrence.sentence.number for occurrence in searched.occurrences] == [0, 3]


def test_equal_sentences_are_shown_once_and_the_query_never(model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The same thing again\n" * 50 + "Another thing here\n")
    index = build_index(model, tmp_path / "index", [str(text)])
    for corpus in (index, [str(text)]):
        found = find_neighbors(model, "Another [thing] here", corpus, words="same")
        assert [each.occurrence.sentence.text for each in next(iter(found.layers.values()))] == ["The same thing again"]


def test_sentences_keep_the_order_of_the_text(model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("  Don't  [stop] – 你好 !  \r\n")
    index = build_index(model, tmp_path / "index", [str(text)])
    (occurrence,), _ = index.find_occurrences("stop", max_occurrences=9)
    assert occurrence.sentence.text == "Don't  [stop] – 你好 !"
    assert occurrence.sentence.words == ["Don", "'t", "[", "stop", "]", "–", "你", "好", "!"]
    assert (occurrence.start, occurrence.word, occurrence.sentence.source) == (3, "stop", str(text))


@pytest.mark.parametrize("when", ["embedding", "indexing"])
def test_a_killed_build_continues_and_ends_as_an_uninterrupted_one(model, texts, tmp_path, monkeypatch, when):
    whole = build_index(model, tmp_path / "whole", texts)
    name = "embed_files" if when == "embedding" else "write_vectors"
    original, calls = getattr(building, name), []

    def die_later(*arguments, **settings):
        calls.append(None)
        if when == "embedding" or len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments, **settings)

    folder = tmp_path / "killed"
    monkeypatch.setattr(building, name, die_later)
    with pytest.raises(KeyboardInterrupt):
        build_index(model, folder, texts)
    (folder / ".index.saving-1").mkdir(parents=True)  # as a process that was killed leaves it
    monkeypatch.setattr(building, name, original)
    resumed = build_index(model, folder, texts)
    assert resumed.layers == whole.layers and resumed.num_occurrences == whole.num_occurrences
    assert list_files(folder) == list_files(whole.folder)
    for word in ("bank", "play", "Number", "5"):
        assert resumed.find_occurrences(word, max_occurrences=999) == whole.find_occurrences(word, max_occurrences=999)


def test_a_resumed_build_embeds_nothing_twice(model, texts, tmp_path, monkeypatch):
    folder = tmp_path / "index"
    with monkeypatch.context() as patched:
        patched.setattr(building, "write_vectors", None)
        with pytest.raises(TypeError):
            build_index(model, folder, texts)
    time = (folder / "manifest.json").stat().st_mtime_ns
    build_index(model, folder, texts)
    assert (folder / "manifest.json").stat().st_mtime_ns == time
    time = (folder / "index" / "index.json").stat().st_mtime_ns
    build_index(model, folder, texts)
    build_index(model, folder)
    assert (folder / "index" / "index.json").stat().st_mtime_ns == time


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_vectors_folder_is_read_and_not_embedded_again(model, texts, tmp_path, monkeypatch, dtype):
    embed_files(model, texts, tmp_path / "vectors", VectorSettings(layers="all", split="sentences", dtype=dtype))
    whole = build_index(model, tmp_path / "whole", texts)
    monkeypatch.setattr(building, "embed_files", None)
    index = build_index(model, tmp_path / "vectors")
    assert index.layers == whole.layers == (1, 2) and index.num_occurrences == whole.num_occurrences
    one, other = (find_neighbors(model, QUERY, each, top_k=5) for each in (index, whole))
    assert cosines(one) == pytest.approx(cosines(other), abs=0.01)
    assert [each.source for each in (n.occurrence.sentence for n in next(iter(one.layers.values())))] == [
        each.occurrence.sentence.source for each in next(iter(other.layers.values()))
    ]


@pytest.mark.parametrize(("layers", "stored"), [("top", (2,)), (-1, (2,)), ("1", (1,)), ("average", ("average",))])
def test_an_index_has_the_layer_that_was_chosen(model, texts, tmp_path, layers, stored):
    index = build_index(model, tmp_path / "index", texts, layers=layers)
    assert index.layers == stored
    assert list(find_neighbors(model, QUERY, index).layers) == [*stored]


def test_rejected_rows_and_rows_of_words_keep_their_places(model, tmp_path):
    rows = ['{"words": ["a", "bank"]}', "{", '{"text": ""}', '{"text": "The  bank!"}', '{"text": "by the bank"}']
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{row}\n" for row in rows))
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    embed_files(model, files, tmp_path / "vectors", VectorSettings(layers="top", part_bytes=10), on_error="reject")
    occurrences, _ = build_index(model, tmp_path / "vectors").find_occurrences("bank", max_occurrences=9)
    assert [(each.sentence.source, each.sentence.number, each.mark()) for each in occurrences] == [
        (str(file), number, text)
        for file in files
        for number, text in ((0, "a [bank]"), (3, "The [bank]!"), (4, "by the [bank]"))
    ]


def test_new_vectors_have_no_index(model, texts, index):
    Path(texts[0]).write_text("Another bank\n")
    with pytest.raises(InputError, match="its input files are not those given now"):
        build_index(model, index.folder, texts)
    embed_files(model, texts, index.folder, VectorSettings(layers="top"), force=True)
    with pytest.raises(CheckpointError, match="has no index; build it with elmo neighbors --build "):
        CorpusIndex(index.folder)
    rebuilt = build_index(model, index.folder, texts, force=True)
    assert rebuilt.find_occurrences("another", max_occurrences=9).num_found == 1


def test_the_index_of_other_vectors_is_refused_and_built_again(model, texts, index, tmp_path):
    other = build_index(model, tmp_path / "other", texts, layers="top")
    shutil.rmtree(other.folder / "index")
    shutil.copytree(index.folder / "index", other.folder / "index")
    with pytest.raises(CheckpointError, match="is damaged or belongs to other vectors; build"):
        CorpusIndex(other.folder)
    assert build_index(model, other.folder).layers == (2,)


def test_vectors_that_no_index_can_use_are_refused(model, tiny_model, texts, tmp_path):
    embed_files(model, texts, tmp_path / "sentences", VectorSettings(unit="sentences"))
    embed_files(model, texts, tmp_path / "concat", VectorSettings(layers="concat"))
    embed_files(tiny_model, texts, tmp_path / "other", VectorSettings(layers="all"))
    for name, message in (
        ("sentences", "an index needs vectors of words"), ("concat", "has the layers 'concat'"),
        ("other", "was built with another model"), ("none", "holds no finished vectors"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            build_index(model, tmp_path / name)
        assert not (tmp_path / name / "index").exists()


def test_mismatched_indexes_are_rejected(model, tiny_model, texts, index, tmp_path):
    folder = index.folder
    for changes, message in (
        ({"model": tiny_model}, "content_hash was"), ({"layers": "average"}, 'layers was "all" and is now "average"'),
        ({"layers": 0}, "Layer 0, the words without sentences, is in every index"),
        ({"files": None, "layers": "all"}, "decide how files are embedded"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            build_index(**{"model": model, "folder": folder, "files": texts, **changes})
    with pytest.raises(InputError, match="does not have the layer average, only 1, 2"):
        find_neighbors(model, QUERY, index, layers=["average"])
    with pytest.raises(InputError, match="is several words, but words='same' compares single ones"):
        find_neighbors(model, "the [old theatre]", index, words="same")
    with pytest.raises(InputError, match="was built with another model, the default model at that time"):
        index.check_model(tiny_model)
    with pytest.raises(InputError, match="holds no finished vectors"):
        CorpusIndex(tmp_path / "nothing")


def test_a_second_build_is_refused_and_does_not_open_the_first_ones_lock(model, texts, tmp_path):
    embed_files(model, texts, tmp_path / "index", VectorSettings(layers="all"))
    (tmp_path / "index" / ".job").mkdir()
    with FileLock(tmp_path / "index" / ".job" / ".lock"):  # as another process that builds has it
        for _ in range(2):
            with pytest.raises(InputError, match="Another run is writing to"):
                build_index(model, tmp_path / "index")
    assert build_index(model, tmp_path / "index").num_occurrences


def test_an_empty_corpus_is_reported(model, texts, tmp_path):
    text = tmp_path / "empty.txt"
    text.write_text("\n \n")
    with pytest.raises(InputError, match="The text has no words"):
        build_index(model, tmp_path / "index", [str(text)])
    assert find_neighbors(model, QUERY, [str(text)]).num_occurrences == 0


def test_one_occurrence(model, tmp_path, capfd):
    text = tmp_path / "one.txt"
    text.write_text("word\n")
    found = find_neighbors(model, QUERY, build_index(model, tmp_path / "index", [str(text)]))
    assert [[each.occurrence.word for each in layer] for layer in found.layers.values()] == [["word"], ["word"]]
    assert capfd.readouterr() == ("", "")  # the library prints by itself


def test_missing_vectors_are_reported(model, index):
    (index.folder / "part-00000.vectors.npy").unlink()
    (index.folder / "part-00000.rows.jsonl").unlink()
    with pytest.raises(InputError, match=r"Part 0 of .* cannot be read .*; elmo info .* lists what is damaged"):
        find_neighbors(model, QUERY, CorpusIndex(index.folder))  # a new index would not help


def test_without_faiss_the_extra_is_named(model, texts, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ConfigError, match="needs faiss: .*analysis"):
        build_index(model, tmp_path / "index", texts)
    assert not (tmp_path / "index").exists()


def test_a_hundred_thousand_vectors_are_searched_well_in_few_cells(tmp_path):
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((500, 16)).astype(np.float32)
    vectors = normalize(np.repeat(centres, 200, axis=0) + 0.3 * draw.standard_normal((100_000, 16)).astype(np.float32))
    write_vectors(tmp_path / "cells", len(vectors), vectors, [vectors])
    cells = VectorFile(tmp_path / "cells", len(vectors))
    num_found = 0
    for row in range(0, 100_000, 5000):
        best = np.argsort(-(vectors @ vectors[row]))[:10]
        num_found += len(set(best.tolist()) & {number for number, _ in cells.search(vectors[row], 15)})
    assert num_found >= 0.9 * 200
    mask = np.zeros(100_000, dtype=np.bool_)
    mask[[7, 99_999]] = True
    assert {number for number, _ in cells.search(vectors[0], 10, mask)} == {7, 99_999}
    assert cells.search(vectors[0], 10, np.zeros(100_000, dtype=np.bool_)) == []
    assert 7 not in {number for number, _ in cells.search(vectors[7], 10, ~mask)}
    part = draw.random(100_000) < 0.02  # so few that all are compared
    right = np.flatnonzero(part)[np.argsort(-(vectors[part] @ vectors[0]))]
    found = cells.search(vectors[0], 20, part)
    assert len({number for number, _ in found} & set(right[:20].tolist())) >= 19
    assert [cosine for _, cosine in found] == pytest.approx(
        [vectors[number] @ vectors[0] for number, _ in found], abs=0.01
    )


def test_a_build_removes_nothing_that_only_looks_like_its_own(model, texts, tmp_path):
    for name in ("index", "part-00000.vectors.npy"):
        folder = tmp_path / name / "index"
        (folder / name).mkdir(parents=True)
        (folder / name / "thesis.tex").touch()
        with pytest.raises(InputError, match="holds other files"):
            build_index(model, folder, texts)
        assert (folder / name / "thesis.tex").exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "other"])
@pytest.mark.parametrize(
    "name",
    ["index.json", "starts.npy", "words.json", "word_ids.npy", "layer-0.faiss", "layer-1.faiss"],
)
def test_every_damaged_file_of_an_index_is_reported(model, index, name, damage):
    whole = find_neighbors(model, QUERY, index, words="same")
    path = index.folder / "index" / name
    content = path.read_bytes()
    changed = {"empty": b"", "cut": content[: len(content) // 2], "other": b"[1, 2]"}
    path.unlink()  # `index` has it mapped
    path.write_bytes(changed[damage])
    with pytest.raises(CheckpointError, match="damaged .* build it again with elmo neighbors --build"):
        find_neighbors(model, QUERY, CorpusIndex(index.folder), words="same")
    assert find_neighbors(model, QUERY, build_index(model, index.folder, force=True), words="same") == whole


def test_an_index_without_the_layers_of_its_vectors_is_built_again(model, index):
    path = index.folder / "index" / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layers": []}))
    assert build_index(model, index.folder).layers == index.layers


@pytest.mark.parametrize("changes", [{"version": 5}, {"vectors": None}])
def test_a_description_that_no_index_has_is_reported(index, changes):
    path = index.folder / "index" / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(CheckpointError, match="is damaged or belongs to other vectors; build"):
        CorpusIndex(index.folder)


@pytest.mark.needs("resource")
def test_a_full_disk_is_reported_when_vectors_are_written(tmp_path):
    import resource

    vectors = normalize(np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))  # a full disk that any user can make
    try:
        with pytest.raises(InputError, match="could not be written "):
            write_vectors(tmp_path / "cells", len(vectors), vectors, [vectors])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
