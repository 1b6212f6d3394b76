"""evaluate_text: sums over sentences, read as a stream."""

import numpy as np
import pytest

from elmo.inference import scoring
from elmo.inference.scoring import Evaluation, evaluate_text
from tests.conftest import refused
from tests.language_models import make_language_model

SENTENCES = ["I went to the bank.", "", "money", "the zyzzyva went to the river ."]


@pytest.fixture(scope="module")
def model():
    return make_language_model()


def test_perplexities_are_of_all_predictions_together(model):
    evaluation = evaluate_text(model, SENTENCES)
    scores = [score for score in model.score(SENTENCES) if score.words]
    ahead = -np.concatenate([[*score.left_to_right, score.end] for score in scores])
    back = -np.concatenate([[*score.right_to_left, score.begin] for score in scores])
    assert evaluation.left_to_right_perplexity == pytest.approx(np.exp(ahead.mean()), rel=1e-5)
    assert evaluation.right_to_left_perplexity == pytest.approx(np.exp(back.mean()), rel=1e-5)
    assert evaluation.perplexity == pytest.approx(np.exp(np.concatenate([ahead, back]).mean()), rel=1e-5)
    assert evaluation.num_predictions == len(ahead) == len(back) == 17


def test_counts_of_an_evaluation(model):
    evaluation = evaluate_text(model, SENTENCES)
    assert (evaluation.num_sentences, evaluation.num_words, evaluation.num_unknown) == (3, 14, 1)
    assert evaluation.unknown_rate == 1 / 14


def test_one_sentence_has_the_perplexity_of_its_score(model):
    evaluation = evaluate_text(model, [SENTENCES[0]])
    assert evaluation.perplexity == pytest.approx(model.score(SENTENCES[0]).perplexity)


def test_split_on_spaces_and_lists_of_words(model):
    evaluation = evaluate_text(model, ["the bank."], split_on_spaces=True)
    assert evaluation == evaluate_text(model, [["the", "bank."]])
    assert (evaluation.num_words, evaluation.num_unknown) == (2, 1)


def test_a_text_is_read_as_it_is_scored(model, monkeypatch):
    monkeypatch.setattr(scoring, "SENTENCES_AT_ONCE", 2)
    num_read = 0

    def read():
        nonlocal num_read
        for _ in range(7):
            num_read += 1
            yield "I went to the bank"

    class Watching:
        state = "zero"
        tokenization = model.tokenization
        windows: list[tuple[int, int]]

        def score(self, sentences):
            self.windows.append((len(sentences), num_read))
            return model.score(sentences)

    watching = Watching()
    watching.windows = []
    evaluation = evaluate_text(watching, read())
    assert watching.windows == [(2, 2), (2, 4), (2, 6), (1, 7)]
    assert evaluation.perplexity == pytest.approx(model.score("I went to the bank").perplexity, rel=1e-5)


def test_carried_state_goes_from_line_to_line_over_empty_ones(model):
    carrying, by_hand = make_language_model(state="carry"), make_language_model(state="carry")
    evaluation = evaluate_text(carrying, SENTENCES)
    scores = [by_hand.score([sentence])[0] for sentence in SENTENCES if sentence]
    loss = sum(score.left_to_right_loss + score.right_to_left_loss for score in scores) / (2 * 17)
    assert evaluation.perplexity == pytest.approx(np.exp(loss), rel=1e-6)
    assert evaluation.perplexity != pytest.approx(evaluate_text(model, SENTENCES).perplexity, rel=1e-6)


def test_evaluations_can_be_compared(model):
    assert evaluate_text(model, SENTENCES) == evaluate_text(model, iter(SENTENCES))
    assert Evaluation(1.0, 2.0, 1, 4, 0).perplexity == pytest.approx(np.exp(1.5))


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "The text has no words, so there is nothing to evaluate"),
        (["", " "], "The text has no words, so there is nothing to evaluate"),
        ("I went", "evaluate_text takes an iterable of sentences"),
        (None, "evaluate_text takes an iterable of sentences"),
        (["a", 1], "Sentence 1 is 1 of type int"),
    ],
)
def test_mistakes(model, sentences, message):
    with refused(message):
        evaluate_text(model, sentences)
