"""A model of single characters: words of several characters are found, compared and substituted as one."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from elmo import Elmo, ElmoLayer, InputError
from elmo.analysis import compare_words, find_neighbors, find_occurrences, induce_senses
from elmo.analysis.index import build_index
from elmo.compat.manylangs import Embedder
from elmo.text.vocabulary import is_punctuation
from elmo.vectors import VectorSettings, embed_files
from tests.characters import PHONES, make_model, make_text, prepare_characters

WORDS = ["我", "吃", "苹果", "，", "很", "好吃"]
TEXT = "我吃苹果，很好吃"
SPANS = [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 8)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return prepare_characters(tmp_path_factory.mktemp("characters"))


@pytest.fixture(scope="module")
def model(corpus):
    return make_model(corpus, aliases={"蘋": "苹", "電": "电", "腦": "脑"})


def mean_spans(array):
    return np.stack([array[..., start:end, :].mean(axis=-2) for start, end in SPANS], axis=-2)


@pytest.mark.parametrize("layers", ["average", "top", 0, "concat", "all"])
def test_given_words_have_one_row_each_the_mean_of_their_characters(model, layers):
    given, text = model.embed([WORDS, TEXT], layers=layers)
    assert given.shape[-2] == len(WORDS) and text.shape[-2] == len(TEXT)
    np.testing.assert_allclose(given, mean_spans(text), atol=1e-5)
    chosen = "average" if layers == "all" else layers  # phrases have their layers first
    means = mean_spans(model.embed(TEXT, layers=chosen))
    np.testing.assert_allclose(model.embed_spans(TEXT, SPANS, layers=chosen), means, atol=1e-5)


def test_a_word_and_the_same_span_have_the_same_vector_in_every_mode(model):
    given = model.embed([WORDS], layers="meaning")[0]
    np.testing.assert_allclose(model.embed_spans(TEXT, SPANS, layers="meaning"), given, atol=1e-5)
    cosine = model.similarity(model.embed_spans(TEXT, [SPANS[2]], layers="meaning"), given[2])
    assert cosine.item() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(model.encode([WORDS])[0], model.encode(TEXT), atol=1e-5)
    vectors = model.word_vectors(["苹果", "苹", "果"])
    np.testing.assert_allclose(vectors[0], vectors[1:].mean(axis=0), atol=1e-5)


def test_the_context_of_a_word_excludes_its_own_characters(model):
    alone = model.context_vectors([["苹果"]])[0]
    np.testing.assert_array_equal(alone, np.zeros_like(alone))
    assert np.abs(model.context_vectors("苹果")).max() > 0.1  # as two words, each is the other's context


def test_batches_do_not_change_vectors_of_words(model):
    sentences = [WORDS, "苹果", ["电脑", "公司"], TEXT * 3]
    for together, alone in zip(model.embed(sentences), sentences, strict=True):
        np.testing.assert_allclose(together, model.embed([alone])[0], atol=1e-5)


def test_meaning_separates_the_senses_of_a_word_that_the_random_top_layer_mixes(model):
    phones = ["他[苹果]手机屏幕新款", "很新款的[苹果]电脑在公司"]
    fruit = ["葡萄[苹果]果汁很甜", "香蕉和[苹果]好吃了"]
    meaning, top = (model.similarity(phones + fruit, layers=layers) for layers in (None, "top"))
    assert min(meaning[0, 1], meaning[2, 3]) > meaning[:2, 2:].max() + 0.3
    assert min(top[0, 1], top[2, 3]) < top[:2, 2:].max()
    compared = compare_words(model, phones + fruit)
    assert [each.word for each in compared.words] == ["苹果"] * 4
    np.testing.assert_allclose(compared.cosines, meaning, atol=1e-5)


def test_traditional_text_has_the_vectors_of_simplified_text_and_keeps_its_words(model):
    np.testing.assert_allclose(model.embed("蘋果電腦"), model.embed("苹果电脑"), atol=1e-6)
    np.testing.assert_allclose(model.encode("蘋果電腦"), model.encode("苹果电脑"), atol=1e-6)
    assert [word.text for word in model.tokenize("蘋果電腦")] == list("蘋果電腦")
    assert model.score("蘋果電腦").num_unknown == 0


def test_saving_keeps_tokenization_and_aliases(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["version"] >= 3
    assert (tmp_path / "model" / "aliases.txt").read_text(encoding="utf-8").splitlines()[0] == "蘋 苹"
    opened = Elmo.from_pretrained(tmp_path / "model")
    assert opened.tokenization.reads_characters and opened.tokenization.aliases["電"] == "电"
    np.testing.assert_allclose(opened.embed([WORDS])[0], model.embed([WORDS])[0], atol=1e-6)
    (tmp_path / "model" / "aliases.txt").write_text("蘋\n", encoding="utf-8")
    fingerprint = model.checkpoint().fingerprint()
    assert opened.checkpoint().fingerprint() == fingerprint
    assert make_without_aliases(model).checkpoint().fingerprint() != fingerprint
    with pytest.raises(Exception, match="aliases.txt does not belong to the config.json"):
        Elmo.from_pretrained(tmp_path / "model")


def make_without_aliases(model):
    return Elmo(replace(model.checkpoint(), aliases={}))


def test_training_takes_the_tokenization_of_the_corpus(corpus, tmp_path):
    import elmo

    found = elmo.train(
        corpus, tmp_path / "run", preset="tiny",
        changes={"max_updates": 2, "num_rows": 4, "model.characters": False, "model.words.embedding_dim": 8},
    )  # fmt: skip
    opened = Elmo.from_pretrained(tmp_path / "run")
    assert opened.config.tokenization.units == "characters", found
    assert opened.embed([WORDS])[0].shape[0] == len(WORDS)


def test_substitutes_of_a_word_are_runs_of_as_many_characters(model):
    found = model.substitutes("我吃[苹果]很好吃", top_k=5)
    assert len(found) == 5
    for each in found:
        assert len(each.word) == 2 and each.word != "苹果"
        assert not any(map(is_punctuation, each.word))
    shares = [each.log_probability for each in found]
    assert shares == sorted(shares, reverse=True)
    assert model.substitutes(["我", "吃", "苹果", "很", "好吃"], 2, top_k=5) == model.substitutes(
        "我吃[苹果]很好吃", top_k=5, add_period=False
    )
    every, others = (
        {each.word for each in model.substitutes("我吃[苹果]很好吃", top_k=5000, same_word=same)}
        for same in (True, False)
    )
    assert every - others == {"苹果"}


def test_the_beam_finds_runs_of_the_best_tenth(model, monkeypatch):
    """With a beam as wide as the vocabulary squared the search is exhaustive."""
    from elmo.inference import substitution

    by_beam = model.substitutes("我的[苹果]手机", top_k=3)
    monkeypatch.setattr(substitution, "_BEAM", 4000)
    every = [found.word for found in model.substitutes("我的[苹果]手机", top_k=800)]
    assert len(every) > 600
    # The beams do not know the top layer, which counts at the end.
    assert {every.index(found.word) < len(every) / 10 for found in by_beam} == {True}


def test_scores_are_those_of_the_units(model):
    assert model.score([WORDS])[0].words == tuple(TEXT)
    assert model.score([WORDS])[0].perplexity == pytest.approx(model.score(TEXT).perplexity, rel=1e-5)


def test_layers_average_the_characters_of_words_with_and_without_gradients(model, corpus):
    frozen = ElmoLayer(model, dropout=0.0)
    tuned = ElmoLayer(make_model(corpus), dropout=0.0, tune_bilm=True)
    sentences = [WORDS, ["电脑"]]
    for layer in (frozen, tuned):
        output = layer(sentences)
        assert output.mixes[0].shape[:2] == (2, len(WORDS))
        assert output.mask.tolist() == [[True] * 6, [True] + [False] * 5]
    torch.testing.assert_close(frozen(sentences).mixes[0], tuned(sentences).mixes[0], atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(
        frozen([WORDS]).mixes[0][0].detach(), model.embed([WORDS], layers="average")[0], atol=1e-5
    )
    tuned(sentences).mixes[0].sum().backward()
    assert tuned.bilm.tokens.words.weight.grad.abs().sum() > 0


def test_neighbors_of_a_word_of_several_characters_in_text(model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("他的苹果手机屏幕很新款。\n我的苹果水果很甜好吃。\n我的葡萄水果很甜。\n", encoding="utf-8")
    query = "[苹果]公司的电脑软件"
    same = next(iter(find_neighbors(model, query, [str(file)], words="same", top_k=5).layers.values()))
    assert [each.occurrence.word for each in same] == ["苹果", "苹果"]
    assert "手机" in same[0].occurrence.sentence.text and same[0].cosine > same[1].cosine


def test_an_index_of_characters_finds_words(model, tmp_path):
    pytest.importorskip("faiss")
    file = tmp_path / "text.txt"
    file.write_text(make_text(200, seed=3), encoding="utf-8")
    index = build_index(model, tmp_path / "index", [str(file)])
    query = "[苹果]公司的电脑软件"
    scanned = find_neighbors(model, query, [str(file)], words="same", top_k=5)
    searched = find_neighbors(model, query, index, words="same", top_k=5)
    assert [each.occurrence.word for each in next(iter(searched.layers.values()))] == ["苹果"] * 5
    for one, other in zip(next(iter(searched.layers.values())), next(iter(scanned.layers.values())), strict=True):
        assert one.cosine == pytest.approx(other.cosine, abs=1e-5)
    num_written = file.read_text(encoding="utf-8").count("苹果")
    assert find_occurrences(index, "苹果", max_occurrences=10**6).num_found == num_written


# Sentences as jieba and a reader segment them.
SEGMENTED = [
    "政府 向 国外 巨额 银团 贷款", "系统 自动 进行 匹配", "他 在 银行 存款", "公司 的 债务 很 多",
    "市场 上 的 商品 价格 上涨", "她 用 现金 付款", "投资 基金 的 收益 下降", "小河 两岸 开满 鲜花",
    "老师 在 教室 讲课", "股票 交易 所 昨天 休市",
]  # fmt: skip


def test_neighbors_of_a_word_are_words_not_fragments(tmp_path):
    pytest.importorskip("faiss")
    model = Elmo.from_pretrained("zh-small")
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{line.replace(' ', '')}。\n" for line in SEGMENTED), encoding="utf-8")
    words = {word for line in SEGMENTED for word in line.split()}
    for corpus in ([str(file)], build_index(model, tmp_path / "index", [str(file)])):
        others = next(iter(find_neighbors(model, "他去[银行]贷款买房", corpus, words="other", top_k=8).layers.values()))
        assert len(others) == 8 and {each.occurrence.word for each in others} <= words
        places = [(each.occurrence.sentence.number, each.occurrence.start) for each in others]
        assert not any((number, start + 1) in places for number, start in places)  # none overlap
        assert {each.occurrence.word for each in others[:4]} & {"贷款", "存款", "债务", "付款", "投资", "基金"}


def test_senses_of_a_word_of_several_characters(model, tmp_path):
    pytest.importorskip("sklearn")
    file = tmp_path / "text.txt"
    file.write_text(make_text(300, seed=5), encoding="utf-8")
    found = find_occurrences([str(file)], "苹果", max_occurrences=200)
    assert all(each.word == "苹果" for each in found.occurrences)
    senses = induce_senses(model, "苹果", found.occurrences, num_senses=2)
    has_phones = [
        {any(word in each.sentence.text for word in PHONES) for each in sense.typical} for sense in senses.senses
    ]
    assert sorted(map(list, has_phones)) == [[False], [True]]
    assert all(len(each.word) == 2 for sense in senses.senses for each in sense.substitutes)


def test_vectors_of_chosen_words_are_those_of_spans(model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(f"{TEXT}\n手机\n", encoding="utf-8")
    settings = VectorSettings(unit="spans", only_words=("苹果",), layers="meaning")
    found = embed_files(model, str(file), tmp_path / "vectors", settings)
    assert len(found) == 1
    np.testing.assert_allclose(found[0].vectors, model.embed_spans(TEXT, [(2, 4)], layers="meaning"), atol=1e-3)


def test_other_programs_get_one_vector_per_word(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    found = Embedder(tmp_path / "model", stateful=False).sents2elmo([WORDS, ["电脑"]])
    np.testing.assert_allclose(found[0], model.embed([WORDS], layers="average")[0], atol=1e-5)
    assert found[1].shape[0] == 1


def test_spacy_documents_have_one_vector_per_token(model):
    spacy = pytest.importorskip("spacy")
    from elmo.integrations.spacy import embed_docs

    doc = spacy.tokens.Doc(spacy.blank("xx").vocab, WORDS)
    np.testing.assert_allclose(
        embed_docs(model, [doc], "average")[0], model.embed([WORDS], layers="average")[0], atol=1e-5
    )


def test_phrases_of_a_model_of_words_still_need_one_word(tiny_model):
    with pytest.raises(InputError, match="mark one word, because one word is put in its place"):
        tiny_model.substitutes("I saw [New York] today")


def test_transformers_tokens_are_characters_also_of_given_words(model, tmp_path):
    pytest.importorskip("transformers")
    from elmo.integrations.transformers import ElmoTokenizer

    model.save_pretrained(tmp_path / "model")
    tokenizer = ElmoTokenizer.from_pretrained(tmp_path / "model")
    text = tokenizer("我吃蘋果", return_offsets_mapping=True)
    given = tokenizer(["我", "吃", "苹果"], is_split_into_words=True, return_offsets_mapping=True)
    assert text["input_ids"] == given["input_ids"] and len(text["input_ids"]) == 4
    assert given["offset_mapping"] == [(0, 1), (0, 1), (0, 1), (1, 2)]
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    again = ElmoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert again("我吃蘋果")["input_ids"] == text["input_ids"]


def test_word_segmentation_is_scored_by_words():
    from elmo.tasks.families.metrics import score_spans, tag_spans

    assert tag_spans(["B", "E", "S", "B", "M", "E"]) == [("word", 0, 1), ("word", 2, 2), ("word", 3, 5)]
    assert tag_spans(["O", "B-LOC", "I-LOC"]) == [("LOC", 1, 2)]
    found = score_spans([["B", "E", "S"]], [["S", "S", "S"]])
    assert found["precision"] == pytest.approx(100 / 3) and found["recall"] == pytest.approx(50)


def test_the_corpus_and_the_command_record_the_characters(corpus, tmp_path, capsys):
    from elmo.cli import main

    assert json.loads((corpus / "manifest.json").read_text())["settings"]["characters"] == ["Han"]
    (tmp_path / "text.txt").write_text("我吃苹果。他有手机。\n", encoding="utf-8")
    command = ["prepare", str(tmp_path / "text.txt"), "--output", str(tmp_path / "made")]
    assert main([*command, "--characters", "Han", "--language", "zh", "--workers", "1"]) == 0
    assert json.loads((tmp_path / "made" / "manifest.json").read_text())["settings"]["characters"] == ["Han"]
    assert main([*command, "--characters", "Klingon"]) == 2
    assert "characters is 'Klingon'; it must be one of 'Han', 'Hiragana'" in capsys.readouterr().err
    assert main([*command, "--characters", "Han", "--split-on-spaces"]) == 2
    assert "each defines the tokens, so choose one" in capsys.readouterr().err


def test_a_context_layer_has_the_given_settings(model, corpus):
    assert (model.context.window, model.context.focus, model.context.share) == (24, 3.0, 3.0)
    from elmo import ConfigError, fuse

    with pytest.raises(ConfigError, match="frequency is 0"):
        fuse(model, corpus, dim=8, frequency=0)
    with pytest.raises(ConfigError, match="window is 0; it must be above 0"):
        fuse(model, corpus, dim=8, window=0)


def test_training_refuses_another_tokenization_than_the_corpus_has(corpus, tmp_path):
    import elmo

    with pytest.raises(elmo.ConfigError, match="prepare it again with .*Thai"):
        elmo.train(corpus, tmp_path / "run", preset="tiny", changes={"model.tokenization.scripts": ["Thai"]})
