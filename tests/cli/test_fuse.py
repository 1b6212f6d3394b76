"""elmo fuse and elmo static: outputs and errors."""

import gzip
import json

import pytest

from elmo import Elmo
from tests.cli.conftest import Run
from tests.pretrain.tiny_encoder import save_encoder

MONEY = "the [bank] of money and cash"
RIVER = "the river and the [bank] of mud"


@pytest.fixture
def fused_folder(run: Run, model_folder, topics_corpus, tmp_path):
    answer = run("fuse", model_folder, topics_corpus, "-o", tmp_path / "fused", "--dim", "4")
    assert answer.code == 0, answer.err
    assert "with a context layer of 18 words and 4 dimensions, from" in answer.out
    return tmp_path / "fused"


def test_a_fused_model_compares_meanings_by_default(run: Run, fused_folder):
    model = Elmo.from_pretrained(fused_folder)
    answer = run("similarity", MONEY, RIVER, "--model", fused_folder, "--json")
    assert json.loads(answer.out)["pairs"][0]["cosine"] == pytest.approx(
        model.similarity(MONEY, RIVER, layers="meaning"), abs=1e-5
    )
    named = run("similarity", MONEY, RIVER, "--model", fused_folder, "--layers", "meaning", "--json")
    assert named.out == answer.out
    other = run("similarity", MONEY, RIVER, "--model", fused_folder, "--layers", "top", "--json")
    assert other.out != answer.out


def test_info_tells_of_the_context_layer(run: Run, fused_folder, model_folder):
    found = json.loads(run("info", fused_folder, "--json").out)["context"]
    assert (found["num_words"], found["dim"], found["window"]) == (18, 4, 15)
    assert "\n  window " in run("info", fused_folder).out and "\n  window " not in run("info", model_folder).out


def test_info_finds_a_damaged_context_layer(run: Run, fused_folder):
    path = fused_folder / "context.safetensors"
    content = bytearray(path.read_bytes())
    content[-10] ^= 64
    path.write_bytes(content)
    assert "context.safetensors is damaged" in run("info", fused_folder).message()


def test_convert_keeps_the_context_layer_except_in_hdf5(run: Run, fused_folder, tmp_path):
    assert run("convert", fused_folder, tmp_path / "half", "--storage", "float16").code == 0
    assert Elmo.from_pretrained(tmp_path / "half").context is not None
    answer = run("convert", fused_folder, tmp_path / "old", "--to", "hdf5")
    assert "not written: context." in answer.out
    assert Elmo.from_pretrained(tmp_path / "old").context is None


def test_neighbors_and_indexes_go_by_meaning(run: Run, fused_folder, model_folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("a loan of cash to the bank\nmud and reeds of the bank\nthe boat and a fish\n")
    scanned = json.loads(run("neighbors", MONEY, "-c", texts, "--match", "same", "-m", fused_folder, "--json").out)
    assert [layer["layer"] for layer in scanned["layers"]] == ["meaning"]
    assert scanned["layers"][0]["neighbors"][0]["text"] == "a loan of cash to the bank"
    pytest.importorskip("faiss")
    built = run("neighbors", "--build", tmp_path / "index", "-c", texts, "-m", fused_folder)
    assert "layers: meaning." in built.out, built.err
    found = json.loads(run("neighbors", MONEY, "-c", tmp_path / "index", "--match", "same", "--json").out)
    near, expected = (each["layers"][0]["neighbors"] for each in (found, scanned))
    assert [each["text"] for each in near] == [each["text"] for each in expected]
    assert near[0]["cosine"] == pytest.approx(expected[0]["cosine"], abs=1e-2)
    refused = run("neighbors", MONEY, "-c", tmp_path / "index", "-m", model_folder)
    assert "was built with another model" in refused.message()


def test_encode_is_weighted_unless_layers_are_given(run: Run, fused_folder):
    (line,) = (json.loads(run("encode", "--text", "the bank", "-m", fused_folder).out),)
    assert len(line["vector"]) == 4 + 6
    plain = json.loads(run("encode", "--text", "the bank", "-m", fused_folder, "--layers", "top").out)
    assert len(plain["vector"]) == 12
    answer = run("encode", "--text", "the bank", "-m", fused_folder, "--layers", "top", "--pooling", "weighted")
    assert "pooling is 'weighted', which takes no layers" in answer.message()


def test_a_folder_of_sentence_vectors_remembers_the_context_layer(run: Run, fused_folder, model_folder, tmp_path):
    pytest.importorskip("pyarrow")
    texts = tmp_path / "texts.txt"
    texts.write_text("a loan of cash\nthe boat\n")
    for model, pooling, layers in ((fused_folder, "weighted", None), (model_folder, "mean", "average")):
        output = tmp_path / f"of-{model.name}"
        assert run("encode", texts, "-m", model, "-o", output).code == 0
        manifest = json.loads((output / "manifest.json").read_text())
        assert (manifest["settings"]["pooling"], manifest["settings"]["layers"]) == (pooling, layers)
        assert ("context_hash" in manifest["model"]) == (pooling == "weighted")


def test_static_vectors_are_written_and_used(run: Run, model_folder, topics_corpus, tmp_path):
    output = tmp_path / "vectors.txt"
    answer = run("static", topics_corpus, "-o", output, "--dim", "3", "--words", "10")
    assert answer.code == 0 and "10 words of 3 dimensions" in answer.out
    assert output.read_text().splitlines()[0] == "10 3"
    fused = run("fuse", model_folder, topics_corpus, "-o", tmp_path / "fused", "--vectors", output)
    assert "10 words and 3 dimensions" in fused.out
    packed = tmp_path / "vectors.txt.gz"
    packed.write_bytes(gzip.compress(output.read_bytes()))
    again = run("fuse", model_folder, topics_corpus, "-o", tmp_path / "again", "--vectors", packed)
    assert again.out == fused.out.replace(str(tmp_path / "fused"), str(tmp_path / "again"))


def test_a_teacher_changes_the_static_vectors(run: Run, topics_corpus, tmp_path):
    transformers = pytest.importorskip("transformers", reason="the extra distill is not installed")
    encoder = save_encoder(tmp_path / "encoder", transformers)
    arguments = ["--dim", "3", "--words", "10", "-o"]
    assert run("static", topics_corpus, *arguments, tmp_path / "corpus.txt").code == 0
    assert run("static", topics_corpus, *arguments, tmp_path / "both.txt", "--teacher", encoder).code == 0
    found = [(tmp_path / name).read_text().splitlines() for name in ("corpus.txt", "both.txt")]
    assert [[line.split()[0] for line in lines] for lines in found] == [[line.split()[0] for line in found[0]]] * 2
    assert found[0] != found[1]
    answer = run("static", topics_corpus, "-o", tmp_path / "none.txt", "--teacher", tmp_path / "missing")
    assert "missing" in answer.message() and not (tmp_path / "none.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dim", "400"], "dim is 400; it must be less than the number of words"),
        (["--vectors", "missing.txt"], "No such file: 'missing.txt'"),
        (
            ["--vectors", "v.txt", "--dim", "100"],
            "dim is 100, but `vectors` are given, so none are computed; leave dim out.",
        ),
    ],
)
def test_mistakes_are_reported_and_nothing_is_left(run: Run, model_folder, topics_corpus, tmp_path, arguments, message):
    answer = run("fuse", model_folder, topics_corpus, "-o", tmp_path / "out", *arguments)
    assert message in answer.message()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_corpus_is_refused(run: Run, model_folder, tmp_path):
    answer = run("fuse", model_folder, tmp_path, "-o", tmp_path / "out")
    assert "holds no complete prepared corpus" in answer.message()


def test_a_model_without_one_refuses_meaning(run: Run, model_folder):
    for command in ("similarity", "embed"):
        sentences = [MONEY, RIVER] if command == "similarity" else ["--text", "I"]
        answer = run(command, *sentences, "-m", model_folder, "--layers", "meaning")
        assert "this model has no context layer; add one with elmo fuse" in answer.message()


def test_a_fused_model_keeps_the_storage_and_the_license_of_its_model(run: Run, model_folder, topics_corpus, tmp_path):
    half = tmp_path / "half"
    assert run("convert", model_folder, half, "--storage", "float16").code == 0
    (half / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Tiny\n\nMeasured: 12.\n")
    assert run("fuse", half, topics_corpus, "-o", tmp_path / "fused", "--dim", "4").code == 0
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (half, tmp_path / "fused")]
    assert sizes[0] == sizes[1]
    card = (tmp_path / "fused" / "README.md").read_text()
    assert "license: cc-by-4.0" in card and "Made from Tiny by elmo fuse" in card and "Measured" not in card
