"""The model, its tokenizer and its heads in transformers."""

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.errors import ConfigError, InputError

from .toys import make_tagged, make_topics, needs

pytestmark = needs("transformers", "accelerate")
TAGS = ["O", "MONEY", "RIVER"]


@pytest.fixture
def tokenizer(model_folder):
    from elmo.integrations.transformers import ElmoTokenizer

    return ElmoTokenizer.from_pretrained(model_folder)


def test_the_pipeline_extracts_the_top_layer(model_folder, model, tokenizer):
    from transformers import pipeline

    from elmo.integrations.transformers import ElmoModel

    extract = pipeline("feature-extraction", model=ElmoModel.from_pretrained(model_folder), tokenizer=tokenizer)
    np.testing.assert_allclose(extract("the bank.")[0], model.embed("the bank.", layers="top"), atol=1e-5)


@pytest.mark.parametrize("kind", ["characters", "words", "both"])
def test_a_saved_model_opens_here_and_there(model_folders, tmp_path, kind):
    from elmo.integrations.transformers import ElmoModel, ElmoTokenizer

    opened = ElmoModel.from_pretrained(model_folders[kind])
    tokenizer = ElmoTokenizer.from_pretrained(model_folders[kind])
    with torch.no_grad():
        opened.bilm.tokens.projection.bias += 1  # as a training would
    opened.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    batch = tokenizer(["the bank", "money"], padding=True, return_tensors="pt")
    expected = opened(**batch).last_hidden_state
    texts = ["the bank", "money"]
    again = ElmoTokenizer.from_pretrained(tmp_path / "saved")(texts, padding=True, return_tensors="pt")
    torch.testing.assert_close(ElmoModel.from_pretrained(tmp_path / "saved")(**again).last_hidden_state, expected)
    vectors = Elmo.from_pretrained(tmp_path / "saved").embed("the bank", layers="top")
    np.testing.assert_allclose(expected[0].numpy(), vectors, atol=1e-5)


def test_the_auto_classes_know_our_own_folders(model_folder, model):
    from transformers import AutoModel, AutoTokenizer

    import elmo.integrations.transformers  # noqa: F401

    batch = AutoTokenizer.from_pretrained(model_folder)("the bank", return_tensors="pt")
    actual = AutoModel.from_pretrained(model_folder)(**batch).last_hidden_state[0].numpy()
    np.testing.assert_allclose(actual, model.embed("the bank", layers="top"), atol=1e-5)


def test_the_auto_classes_know_the_folders_of_the_heads(model_folder, tokenizer, tmp_path):
    from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer

    from elmo.integrations.transformers import ElmoForTokenClassification, ElmoModel

    head = ElmoForTokenClassification.from_pretrained(model_folder, num_labels=3)
    head.save_pretrained(tmp_path / "head")
    tokenizer.save_pretrained(tmp_path / "head")
    assert AutoConfig.from_pretrained(tmp_path / "head").hidden_size == 64
    batch = AutoTokenizer.from_pretrained(tmp_path / "head")("the bank", return_tensors="pt")
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path / "head")
    torch.testing.assert_close(loaded(**batch).logits, head(**batch).logits)
    assert {name for name, weight in loaded.named_parameters() if weight.requires_grad} == {
        "mix.weights", "mix.gamma", "classifier.weight", "classifier.bias",
    }  # fmt: skip
    inner = ElmoModel.from_pretrained(tmp_path / "head")
    torch.testing.assert_close(inner(**batch).last_hidden_state, head.elmo(**batch).last_hidden_state)


def train(model, features, tokenizer, folder, collator, **options):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=8, per_device_train_batch_size=8, learning_rate=3e-2,
        report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="epoch", save_total_limit=1, **options,
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=features, eval_dataset=features,
        data_collator=collator(tokenizer), processing_class=tokenizer,
    )  # fmt: skip
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    return before, trainer.evaluate()["eval_loss"]


@pytest.mark.parametrize("tune_bilm", [False, True])
def test_training_a_tagger_lowers_the_loss_and_reloads_to_the_same_predictions(
    model_folder, tokenizer, tmp_path, tune_bilm
):
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    from elmo.integrations.transformers import ElmoForTokenClassification

    torch.manual_seed(0)
    model = ElmoForTokenClassification.from_pretrained(
        model_folder, num_labels=3, dropout=0.0, tune_bilm=tune_bilm, id2label=dict(enumerate(TAGS))
    )
    features = [
        {**tokenizer(words, is_split_into_words=True), "labels": [TAGS.index(tag) for tag in tags]}
        for words, tags in make_tagged(40)
    ]
    frozen = model.elmo.bilm.tokens.projection.weight.clone()
    before, after = train(model, features, tokenizer, tmp_path / "run", DataCollatorForTokenClassification)
    assert after < (0.7 if tune_bilm else 0.9) * before
    assert torch.equal(frozen, model.elmo.bilm.tokens.projection.weight) is not tune_bilm
    batch = tokenizer(["the river", "cash of the boat"], padding=True, return_tensors="pt")
    expected = model.eval()(**batch).logits
    loaded = AutoModelForTokenClassification.from_pretrained(next((tmp_path / "run").glob("checkpoint-*")))
    assert loaded.config.id2label[2] == "RIVER" and loaded.config.tune_bilm is tune_bilm
    torch.testing.assert_close(loaded(**batch).logits, expected, atol=1e-5, rtol=0)


def test_training_a_classifier_lowers_the_loss(model_folder, tokenizer, tmp_path):
    from transformers import DataCollatorWithPadding, pipeline

    from elmo.integrations.transformers import ElmoForSequenceClassification

    torch.manual_seed(0)
    names = {"id2label": {0: "money", 1: "river"}, "label2id": {"money": 0, "river": 1}}
    model = ElmoForSequenceClassification.from_pretrained(model_folder, dropout=0.0, tune_bilm=True, **names)
    features = [{**tokenizer(text), "label": label} for text, label in zip(*make_topics(48), strict=True)]
    before, after = train(model, features, tokenizer, tmp_path / "run", DataCollatorWithPadding)
    assert after < 0.5 * before
    classify = pipeline("text-classification", model=model.eval(), tokenizer=tokenizer)
    actual = [answer["label"] for answer in classify(["the cash and a loan", "a boat of the river"])]
    assert actual == ["money", "river"]


def test_the_tokenizer_pads_and_cuts(model, tokenizer):
    batch = tokenizer(["I went to the bank.", "Hello"], padding=True, return_tensors="pt")
    assert batch["input_ids"].shape == (2, 6, 50)
    assert batch["attention_mask"].tolist() == [[1] * 6, [1] + [0] * 5]
    cut = tokenizer("I went to the bank.", truncation=True, max_length=2, return_offsets_mapping=True)
    assert len(cut["input_ids"]) == 2 and cut["offset_mapping"] == [(0, 1), (2, 6)]
    assert tokenizer.tokenize("Don't go.") == [word.text for word in model.tokenize("Don't go.")]


def test_mistakes_are_explained(model_folder, tokenizer):
    from elmo.integrations.transformers import ElmoModel

    with pytest.raises(InputError, match="is not a text, or not a list of words"):
        tokenizer([["I", "went"]])
    with pytest.raises(ConfigError, match="dtype was given, but ELMo is trained and run in float32"):
        ElmoModel.from_pretrained(model_folder, dtype=torch.float16)
    with pytest.raises(InputError, match="A sentence has padding before a word"):
        ElmoModel.from_pretrained(model_folder)(
            torch.zeros(1, 2, 50, dtype=torch.long), attention_mask=torch.tensor([[0, 1]])
        )
