"""A model trained on segmented text splits text on spaces in every command."""

import json
from dataclasses import replace

import numpy as np
import pytest

import elmo
from elmo.checkpoint.open import open_checkpoint
from elmo.cli import main
from elmo.config import TokenizationConfig
from elmo.tasks.settings import ReadSettings

TEXT = "一个 男人 在 弹 吉他 。\n一个 女人 在 弹 钢琴 。\n男人 喜欢 吉他 。\n女人 喜欢 钢琴 。\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segmented")
    (folder / "text.txt").write_text(TEXT * 8, encoding="utf-8")
    prepared = ["prepare", str(folder / "text.txt"), "--split", "lines", "--split-on-spaces", "--workers", "1"]
    assert main([*prepared, "--output", str(folder / "corpus")]) == 0
    settings = ["--preset", "tiny", "--set", "max_updates=4"]
    assert main(["train", str(folder / "corpus"), "--output", str(folder / "run"), *settings]) == 0
    return folder / "run"


def test_the_model_splits_text_on_spaces_again_after_saving(run, tmp_path):
    model = elmo.Elmo.from_pretrained(run)
    model.save_pretrained(tmp_path / "copy")
    again = elmo.Elmo.from_pretrained(tmp_path / "copy")
    assert again.config.tokenization == TokenizationConfig(split_on_spaces=True)
    text = "男人 喜欢 吉他"
    assert [word.text for word in again.tokenize(text)] == text.split(" ")
    np.testing.assert_array_equal(again.embed(text), model.embed([text.split(" ")])[0])
    assert again.score(text).words == ("男人", "喜欢", "吉他")
    assert len(again.substitutes("男人 喜欢 [吉他]", top_k=3)) == 3


def test_commands_take_a_segmented_word_in_brackets_as_one(run, tmp_path, capsys):
    first, second = "一个 男人 在 弹 [吉他] 。", "男人 喜欢 [吉他] 。"
    assert main(["similarity", first, second, "--model", str(run), "--json"]) == 0
    marked = json.loads(capsys.readouterr().out)["sentences"]
    assert [query["words"][query["start"] : query["end"]] for query in marked] == [["吉他"], ["吉他"]]
    assert main(["substitutes", first, "--model", str(run), "--json"]) == 0
    assert {word["word"] for word in json.loads(capsys.readouterr().out)["substitutes"]} <= set(TEXT.split())
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    neighbors = ["neighbors", first, "--corpus", str(tmp_path / "text.txt"), "--model", str(run), "--json"]
    assert main(neighbors) == 0
    for layer in json.loads(capsys.readouterr().out)["layers"]:
        assert {neighbor["word"] for neighbor in layer["neighbors"]} <= set(TEXT.split())
    embed = ["embed", "--text", "男人 喜欢 吉他", "--model", str(run), "--output", str(tmp_path / "x.jsonl")]
    assert main(embed) == 0
    assert json.loads((tmp_path / "x.jsonl").read_text())["words"] == ["男人", "喜欢", "吉他"]


def test_a_model_of_words_keeps_its_tokenizer_when_it_is_trained_further_on_segmented_text(tmp_path, run):
    text = tmp_path / "text.txt"
    text.write_text("the dog barks .\nthe cat sleeps .\n" * 20)
    corpus = elmo.prepare(text, tmp_path / "corpus", split="lines", split_on_spaces=True, num_workers=1)
    first = elmo.prepare(text, tmp_path / "first", split="lines", num_workers=1)
    elmo.train(first.folder, tmp_path / "run", preset="tiny", changes={"max_updates": 2})
    elmo.train(corpus.folder, tmp_path / "further", init=tmp_path / "run", changes={"max_updates": 2})
    assert elmo.Elmo.from_pretrained(tmp_path / "further").config.tokenization == TokenizationConfig()
    with pytest.raises(elmo.ConfigError, match="is not tokenized like the model; prepare it again"):
        changes = {"model.tokenization.split_on_spaces": True}
        elmo.train(first.folder, tmp_path / "refused", preset="tiny", changes=changes)


def test_a_task_on_such_a_model_splits_its_texts_on_spaces(run):
    read = ReadSettings().with_tokenization(open_checkpoint(run).config.tokenization)
    assert [word.text for word in read.tokenizer("classification")("男人 喜欢 吉他")] == ["男人", "喜欢", "吉他"]


def test_tokenization_on_spaces_is_recorded_only_where_it_is_used():
    assert "split_on_spaces" not in TokenizationConfig().to_dict()
    config = TokenizationConfig(split_on_spaces=True)
    assert TokenizationConfig.from_dict(config.to_dict()) == config
    assert replace(config, units="characters").faults()
