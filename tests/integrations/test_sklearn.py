"""ElmoVectorizer in scikit-learn."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from elmo import Elmo
from elmo.errors import InputError

from .toys import make_topics, needs, needs_data, read_sst

pytestmark = needs("sklearn")
TEXTS, LABELS = make_topics(120)


@pytest.fixture
def vectorizer(model_folder):
    from elmo.integrations.sklearn import ElmoVectorizer

    return ElmoVectorizer(str(model_folder))


def test_texts_become_the_vectors_of_encode_by_default_all_layers_without_a_head(vectorizer, model):
    np.testing.assert_array_equal(vectorizer.fit_transform(TEXTS), model.encode(TEXTS, layers="concat"))
    assert vectorizer.transform([["the", "bank"]]).shape == (1, model.num_layers * model.dim)
    vectorizer.set_params(pooling="mean")
    np.testing.assert_array_equal(vectorizer.transform(TEXTS), model.encode(TEXTS, pooling="mean"))
    assert vectorizer.transform([]).shape == (0, model.dim)


CHECKS = (
    "check_estimator_cloneable", "check_estimator_get_tags_default_keys", "check_estimator_repr",
    "check_do_not_raise_errors_in_init_or_set_param", "check_get_params_invariance", "check_mixin_order",
    "check_no_attributes_set_in_init", "check_parameters_default_constructible", "check_set_params",
    "check_valid_tag_types",
)  # fmt: skip


def test_the_checks_of_scikit_learn_that_need_no_numbers_pass(vectorizer):
    from sklearn.utils import estimator_checks

    results = estimator_checks.check_estimator(
        vectorizer, on_fail=None
    )  # skips what feeds numbers, as for TfidfVectorizer
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
    checks = [getattr(estimator_checks, name, None) for name in CHECKS]
    assert sum(check is not None for check in checks) >= 8
    for check in filter(None, checks):
        check("ElmoVectorizer", vectorizer)


def test_a_pipeline_learns_two_topics(vectorizer):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer.set_params(layers="concat")
    classifier = make_pipeline(vectorizer, LogisticRegression(C=100, max_iter=1000)).fit(TEXTS, LABELS)
    assert classifier.score(*make_topics(100, seed=1)) > 0.9


def test_a_search_over_layers_and_pooling_opens_the_model_once(vectorizer, monkeypatch):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline

    vectorizer.fit(TEXTS)
    opened = []
    monkeypatch.setattr(Elmo, "from_pretrained", lambda *arguments, **options: opened.append(arguments))
    pipeline = Pipeline([("elmo", vectorizer), ("classifier", LogisticRegression(C=100, max_iter=1000))])
    grid = {"elmo__layers": [0, "top", "concat"], "elmo__pooling": ["mean", "max"]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(TEXTS, LABELS)
    assert not opened  # all clones share the model that is open already
    assert len(search.cv_results_["params"]) == 6 and search.best_score_ > 0.8
    dims = {layers: _count(search, layers) for layers in grid["elmo__layers"]}
    assert dims["concat"] == 3 * dims["top"]


def _count(search, layers):
    return search.estimator.named_steps["elmo"].set_params(layers=layers).transform(TEXTS[:1]).shape[1]


def test_a_pickle_refers_to_a_named_model_and_carries_a_given_one(vectorizer, model, tmp_path):
    from sklearn.base import clone

    from elmo.integrations.sklearn import ElmoVectorizer

    expected = vectorizer.fit_transform(TEXTS[:3])
    small = pickle.dumps(vectorizer)
    assert len(small) < 2000
    np.testing.assert_array_equal(pickle.loads(small).transform(TEXTS[:3]), expected)
    for copied in (pickle.loads(pickle.dumps(ElmoVectorizer(model))), clone(ElmoVectorizer(model))):
        np.testing.assert_array_equal(copied.transform(TEXTS[:3]), expected)


def test_a_pickle_works_in_another_process(vectorizer, tmp_path):
    vectorizer.set_params(precision="float32")
    path = tmp_path / "vectorizer.pickle"
    path.write_bytes(pickle.dumps(vectorizer.fit(TEXTS)))
    code = f"import pickle; print(pickle.load(open({str(path)!r}, 'rb')).transform(['the bank'])[0, :3].tolist())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    np.testing.assert_allclose(eval(printed), vectorizer.transform(["the bank"])[0, :3], atol=1e-6)


def test_set_output_makes_a_data_frame(vectorizer, model):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = vectorizer.set_output(transform="pandas").fit_transform(pandas.Series(TEXTS[:4], index=list("abcd")))
    assert list(frame.columns) == [f"elmovectorizer{number}" for number in range(model.num_layers * model.dim)]
    assert list(frame.index) == list("abcd")


def test_a_folder_that_was_written_again_is_opened_again(model, own_model, tmp_path):
    from elmo.integrations.sklearn import ElmoVectorizer

    model.save_pretrained(tmp_path / "model")
    first = ElmoVectorizer(str(tmp_path / "model")).fit(TEXTS)
    (tmp_path / "model").rename(tmp_path / "old")
    own_model.save_pretrained(tmp_path / "model")
    second = ElmoVectorizer(str(tmp_path / "model")).fit(TEXTS)
    assert first.transform(TEXTS[:1]).shape[1] == model.num_layers * model.dim != second.transform(TEXTS[:1]).shape[1]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "The input is 'one text'"),
        (np.array([["a", "b"]]), "give a list or one column of texts"),
        ([1.5], "Sentence 0 is 1.5 of type float"),
        ([None], "Sentence 0 is None"),
    ],
)
def test_invalid_columns_of_texts_are_rejected(vectorizer, texts, message):
    with pytest.raises(InputError, match=message):
        vectorizer.transform(texts)


def test_several_vectors_per_word_are_refused(vectorizer):
    with pytest.raises(InputError, match="layers='all' gives several vectors per word"):
        vectorizer.set_params(layers="all").fit(TEXTS)


@pytest.mark.slow
@needs_data("sentiment/sst-train.txt")
def test_vectors_beat_tf_idf_on_sst_with_500_sentences():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from elmo.integrations.sklearn import ElmoVectorizer

    texts, labels = read_sst("sst-train.txt")
    chosen = np.random.default_rng(0).permutation(len(texts))[:500]
    train = [texts[number] for number in chosen], [labels[number] for number in chosen]
    test = read_sst("sst-test.txt")
    scores = {}
    for made in (TfidfVectorizer(), ElmoVectorizer()):
        scores[type(made).__name__] = make_pipeline(made, LogisticRegression(max_iter=1000)).fit(*train).score(*test)
    assert scores["ElmoVectorizer"] > scores["TfidfVectorizer"] + 0.02, scores
