"""The component "elmo" and the layer "elmo.Tok2Vec.v1" inside spaCy itself."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo.errors import InputError

from .toys import make_tagged, needs, needs_data, read_conll

pytestmark = needs("spacy")
ROOT = Path(__file__).parents[2]
CONFIG = """
[nlp]
lang = "en"
pipeline = ["ner"]

[components]

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 32
maxout_pieces = 2
use_upper = true

[components.ner.model.tok2vec]
@architectures = "elmo.Tok2Vec.v1"
model = {model}
layers = {layers}

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = "train.spacy"

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = "dev.spacy"

[training]
seed = 1
max_epochs = {epochs}
max_steps = 0
eval_frequency = {frequency}
patience = 0

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.01
"""


@pytest.fixture
def nlp(model_folder):
    import spacy

    import elmo.integrations.spacy  # noqa: F401  # the entry points have a test of their own

    made = spacy.blank("en")
    made.add_pipe("elmo", config={"model": str(model_folder)})
    return made


def test_tokens_spans_and_documents_have_vectors(nlp, model):
    doc = nlp("I went to the bank.")
    words = [token.text for token in doc]
    expected = model.embed([words])[0]
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)
    np.testing.assert_allclose(doc[4].vector, expected[4], atol=1e-6)
    np.testing.assert_allclose(doc[1:3].vector, expected[1:3].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(doc.vector, expected.mean(axis=0), atol=1e-6)
    assert doc.has_vector and doc[0].has_vector and doc[1:2].has_vector
    assert doc[1:3].vector_norm == pytest.approx(np.linalg.norm(expected[1:3].mean(axis=0)), abs=1e-5)


def test_similarity_compares_words_in_their_sentences(nlp, model):
    one, two = nlp.pipe(["I went to the bank", "the bank of the river"])
    expected = model.similarity("I went to the [bank]", "the [bank] of the river")
    assert one[4].similarity(two[1]) == pytest.approx(expected, abs=1e-5)
    assert expected < 0.9999  # one spelling, two vectors
    assert one[4:5].similarity(two[1:2]) == pytest.approx(expected, abs=1e-5)
    assert one.similarity(one) == pytest.approx(1, abs=1e-5)
    assert -1 <= one.similarity(two[1]) < 0.9999


def test_white_space_is_not_read_and_has_zeros(nlp, model):
    doc = nlp("the  bank \n of\n\nthe river")
    words = [token.text for token in doc if not token.is_space]
    assert words == ["the", "bank", "of", "the", "river"] and len(doc) > len(words)
    inside = [token.i for token in doc if not token.is_space]
    np.testing.assert_allclose(doc.tensor[inside], model.embed([words])[0], atol=1e-6)
    assert all(not token.vector.any() and not token.has_vector for token in doc if token.is_space)
    np.testing.assert_allclose(doc.vector, model.embed([words])[0].mean(axis=0), atol=1e-6)


def test_sentences_are_encoded_separately_if_boundaries_are_set(model_folder, model):
    import spacy

    import elmo.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(model_folder)})
    doc = nlp("I went to the bank. The river is wide.")
    second = list(doc.sents)[1]
    expected = model.embed([[token.text for token in second]])[0]
    np.testing.assert_allclose(doc.tensor[second.start :], expected, atol=1e-6)


def test_documents_of_all_lengths_go_through_in_batches(nlp, model):
    texts = ["", "Hello", " ", "the bank of the river", *["money"] * 5]
    for text, doc in zip(texts, nlp.pipe(texts, batch_size=3), strict=True):
        assert doc.text == text and doc.tensor.shape == (len(doc), model.dim)
    np.testing.assert_allclose(doc.tensor, model.embed(["money"])[0], atol=1e-6)


def test_a_broken_document_is_handed_to_the_error_handler(nlp, monkeypatch):
    from elmo.integrations import spacy as adapter

    def fail(*_):
        raise RuntimeError("no vectors today")

    failed = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, len(docs), str(error))))
    monkeypatch.setattr(adapter, "embed_docs", fail)
    list(nlp.pipe(["a", "b"]))
    assert failed == [("elmo", 2, "no vectors today")]


@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_a_saved_pipeline_carries_its_model(nlp, model, tmp_path, how):
    import spacy

    model.save_pretrained(tmp_path / "moving")
    made = spacy.blank("en")
    made.add_pipe("elmo", config={"model": str(tmp_path / "moving"), "layers": "concat"})
    expected = made("the bank").tensor
    if how == "disk":
        made.to_disk(tmp_path / "pipeline")
    content = made.to_bytes()
    (tmp_path / "moving").rename(tmp_path / "moved")
    if how == "disk":
        loaded = spacy.load(tmp_path / "pipeline")
    else:
        loaded = spacy.blank("en")
        loaded.add_pipe("elmo", config={"layers": "concat"})
        loaded.from_bytes(content)
    np.testing.assert_allclose(loaded("the bank").tensor, expected, atol=1e-6)


@pytest.mark.parametrize(("layers", "times"), [("concat", 3), ("top", 1), (0, 1), ([1.0, 0.0, 0.0], 1)])
def test_layers_are_chosen_in_the_settings(model_folder, model, layers, times):
    import spacy

    import elmo.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(model_folder), "layers": layers})
    actual = nlp("the bank").tensor
    assert actual.shape == (2, times * model.dim)
    np.testing.assert_allclose(actual, model.embed([["the", "bank"]], layers=layers)[0], atol=1e-6)


@pytest.mark.parametrize("layers", ["all", "best"])
def test_layers_that_give_no_vector_are_refused(model_folder, layers):
    import spacy

    import elmo.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(model_folder), "layers": layers})
    with pytest.raises(InputError, match="layers"):
        nlp("the bank")


def test_spacy_finds_the_component_and_the_layer_without_an_import(model_folder, tmp_path):
    """By the entry points of pyproject.toml, put where an installer would put them."""
    toml = pytest.importorskip("tomllib", reason="tomllib comes with Python 3.11")
    points = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    lines = []
    for group, named in points.items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in named.items())]
    info = tmp_path / "elmo_entry_points-0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elmo-entry-points\nVersion: 0\n")
    code = f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / "src")!r}]
import spacy
assert "elmo" not in sys.modules
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={{"model": {str(model_folder)!r}}})
print(nlp("the bank").tensor.shape, spacy.registry.architectures.get("elmo.Tok2Vec.v1").__name__)
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "(2, 64) build_tok2vec"


def write_docs(path, tagged):
    """Write sentences with tags B-X, I-X and O as spaCy's training files."""
    import spacy
    from spacy.tokens import Doc, DocBin

    vocabulary = spacy.blank("en").vocab
    DocBin(docs=[Doc(vocabulary, words=words, ents=tags) for words, tags in tagged]).to_disk(path)


def train(folder, **settings):
    """Train from the config file as `spacy train` does; return the pipeline, its score and the folder."""
    from spacy.cli.init_config import fill_config
    from spacy.cli.train import train as spacy_train
    from spacy.util import load_model

    import elmo.integrations.spacy  # noqa: F401

    (folder / "base.cfg").write_text(CONFIG.format(**settings), encoding="utf-8")
    fill_config(folder / "config.cfg", folder / "base.cfg", silent=True)
    spacy_train(folder / "config.cfg", folder / "output")
    nlp = load_model(folder / "output" / "model-best")
    return nlp, nlp.meta["performance"]["ents_f"]


def test_ner_is_trained_from_a_config_and_reloads_to_the_same_predictions(model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, number, seed in (("train", 120, 0), ("dev", 40, 1)):
        tagged = make_tagged(number, seed)
        begins = [[tag if tag == "O" else f"B-{tag}" for tag in tags] for _, tags in tagged]
        write_docs(f"{name}.spacy", [(words, tags) for (words, _), tags in zip(tagged, begins, strict=True)])
    nlp, score = train(tmp_path, model=f'"{model_folder}"', layers='"concat"', epochs=40, frequency=60)
    assert score > 0.9
    doc = nlp("the river of cash")
    assert [(entity.text, entity.label_) for entity in doc.ents] == [("river", "RIVER"), ("cash", "MONEY")]


@pytest.mark.slow
@needs_data("ner/wnut17-train.conll")
def test_ner_learns_wnut_from_a_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_docs("train.spacy", read_conll("ner/wnut17-train.conll")[:1000])
    write_docs("dev.spacy", read_conll("ner/wnut17-dev.conll")[:300])
    _, score = train(tmp_path, model="null", layers='"concat"', epochs=4, frequency=50)
    assert score > 0.15


def test_the_ready_made_taggers_set_parts_of_speech_and_entities():
    import spacy

    import elmo.integrations.spacy  # noqa: F401  # registers the component

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_tagger")
    doc = nlp("Ada Lovelace was  born in London.")
    assert [(entity.text, entity.label_) for entity in doc.ents] == [
        ("Ada Lovelace", "person"), ("London", "location")
    ]  # fmt: skip
    assert [token.pos_ for token in doc if not token.is_space][2:5] == ["AUX", "VERB", "ADP"]
