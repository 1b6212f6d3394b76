"""ElmoEmbeddings in flair."""

import numpy as np
import pytest
import torch

from elmo.errors import InputError

from .toys import make_tagged, needs

pytestmark = needs("flair")


@pytest.mark.parametrize(("mode", "layers"), [("auto", "auto"), ("all", "concat"), ("top", "top")])
def test_layers_are_chosen_as_flairs_own_elmo_chose_them(model_folder, model, mode, layers):
    from flair.data import Sentence

    from elmo.integrations.flair import ElmoEmbeddings

    embeddings = ElmoEmbeddings(str(model_folder), embedding_mode=mode)
    sentence = Sentence(["the", "bank"])
    embeddings.embed(sentence)
    actual = np.stack([token.embedding.cpu().numpy() for token in sentence])
    np.testing.assert_allclose(actual, model.embed([["the", "bank"]], layers=layers)[0], atol=1e-6)
    assert embeddings.embedding_length == actual.shape[1]


def test_mistakes_are_explained(model_folder):
    from elmo.integrations.flair import ElmoEmbeddings

    with pytest.raises(InputError, match="embedding_mode is 'best'"):
        ElmoEmbeddings(model_folder, embedding_mode="best")


def test_a_tagger_learns_and_reloads_to_the_same_predictions(model, tmp_path):
    from flair.data import Corpus, Sentence
    from flair.datasets import FlairDatapointDataset
    from flair.models import SequenceTagger
    from flair.trainers import ModelTrainer

    from elmo.integrations.flair import ElmoEmbeddings

    def read(number, seed):
        made = []
        for words, tags in make_tagged(number, seed):
            sentence = Sentence(words)
            for token, tag in zip(sentence, tags, strict=True):
                token.add_label("topic", tag)
            made.append(sentence)
        return FlairDatapointDataset(made)

    torch.manual_seed(0)
    model.save_pretrained(tmp_path / "model")
    corpus = Corpus(train=read(80, 0), dev=read(20, 1), test=read(20, 2), sample_missing_splits=False)
    tagger = SequenceTagger(
        embeddings=ElmoEmbeddings(str(tmp_path / "model"), embedding_mode="all"),
        tag_dictionary=corpus.make_label_dictionary("topic"), tag_type="topic", hidden_size=32, use_crf=False,
    )  # fmt: skip
    before = tagger.evaluate(list(corpus.train), "topic").loss
    ModelTrainer(tagger, corpus).train(
        str(tmp_path / "run"), learning_rate=0.01, mini_batch_size=8, max_epochs=20, optimizer=torch.optim.AdamW
    )
    after = tagger.evaluate(list(corpus.train), "topic").loss
    assert after < 0.5 * before
    (tmp_path / "model").rename(tmp_path / "moved")  # the tagger carries the model along
    names = ("best-model.pt", "final-model.pt")  # after training flair goes back to the best one, if there is one
    loaded = SequenceTagger.load(str(next(p for n in names if (p := tmp_path / "run" / n).exists())))
    answers = []
    for used in (tagger, loaded):
        sentence = Sentence(["the", "river", "of", "cash", "and", "mud"])
        used.predict(sentence)
        answers.append([(label.data_point.text, label.value) for label in sentence.get_labels("topic")])
    assert answers[0] == answers[1]
    assert ("river", "RIVER") in answers[0] and ("cash", "MONEY") in answers[0]
