"""ElmoModule as the first module of a SentenceTransformer: encode, save, load, train."""

import copy

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.errors import InputError

from .toys import make_topics, needs

pytestmark = needs("sentence_transformers", "datasets", "accelerate")
TEXTS = ["the river and the bank", "Hello", "money of the bank"]


def make_transformer(folder, *more, **options):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    from elmo.integrations.sentence_transformers import ElmoModule

    module = ElmoModule(folder, **options)
    pooling = Pooling(module.get_embedding_dimension())
    return SentenceTransformer(modules=[module, pooling, *more], device="cpu")


def test_mean_pooling_encodes_as_encode_does(model_folder, model):
    transformer = make_transformer(model_folder)
    np.testing.assert_allclose(transformer.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    actual = transformer.encode(TEXTS, convert_to_tensor=True, normalize_embeddings=True, batch_size=2)
    np.testing.assert_allclose(actual.numpy(), model.encode(TEXTS, normalize_embeddings=True), atol=1e-5)
    np.testing.assert_allclose(transformer.encode("Hello"), model.encode("Hello"), atol=1e-5)
    assert transformer.similarity(actual, actual).diagonal().tolist() == pytest.approx([1, 1, 1], abs=1e-5)


def test_a_prompt_is_put_before_the_text(model_folder, model):
    actual = make_transformer(model_folder).encode(["bank"], prompt="the river ")
    np.testing.assert_allclose(actual, model.encode(["the river bank"]), atol=1e-5)


def test_input_that_is_not_text_is_rejected(model_folder):
    from elmo.integrations.sentence_transformers import ElmoModule

    with pytest.raises(InputError, match="Input 1 is 3; give a text or a list of words"):
        ElmoModule(model_folder).preprocess(["a", 3])


def make_pairs():
    from datasets import Dataset

    texts, labels = make_topics(64)
    first, second = texts[::2], texts[1::2]
    alike = [float(one == two) for one, two in zip(labels[::2], labels[1::2], strict=True)]
    return Dataset.from_dict({"sentence1": first, "sentence2": second, "score": alike})


@pytest.mark.parametrize("tune_bilm", [False, True])
def test_training_lowers_the_loss_and_reloads_to_the_same_vectors(model_folder, tmp_path, tune_bilm):
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(0)
    more = [] if tune_bilm else [Dense(Elmo.from_pretrained(model_folder).dim, 8)]
    transformer = make_transformer(model_folder, *more, tune_bilm=tune_bilm)
    weights_before = copy.deepcopy(transformer[0].layer.to_elmo().checkpoint().weights)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"), num_train_epochs=10, per_device_train_batch_size=8, learning_rate=1e-2,
        save_strategy="epoch", save_total_limit=1, report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    pairs = make_pairs()
    trainer = SentenceTransformerTrainer(
        model=transformer, args=arguments, train_dataset=pairs, eval_dataset=pairs,
        loss=CosineSimilarityLoss(transformer),
    )  # fmt: skip
    loss_before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.6 * loss_before
    changed = [
        name for name, weight in transformer[0].layer.to_elmo().checkpoint().weights.items()
        if not np.array_equal(weight, weights_before[name])
    ]  # fmt: skip
    assert bool(changed) is tune_bilm
    assert transformer[0].layer.mixes[0].weights.abs().max() > 0.01  # the mix was learned

    expected = transformer.encode(TEXTS)
    transformer.save_pretrained(str(tmp_path / "saved"))
    for folder in (tmp_path / "saved", next((tmp_path / "run").glob("checkpoint-*"))):
        loaded = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
        assert loaded[0].layer.tune_bilm is tune_bilm
        np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-6)
    inside = next((tmp_path / "saved").glob("*ElmoModule*"))
    mix = transformer[0].layer.mixes[0]
    by_hand = Elmo.from_pretrained(inside).embed("Hello", layers=mix.normalized_weights().tolist())
    tokens = transformer.encode(["Hello"], output_value="token_embeddings")[0].numpy()
    np.testing.assert_allclose(by_hand * float(mix.gamma.detach()), tokens, atol=1e-5)
