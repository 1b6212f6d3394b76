"""A trained task states the mixing weights that it learned."""

import pytest

from elmo.tasks import load


@pytest.mark.parametrize(("where", "tune", "num_mixes"), [("input", False, 1), ("both", False, 2), ("output", True, 1)])
def test_the_mixing_weights_of_a_task_are_those_of_its_scores(train_toy, where, tune, num_mixes):
    folder, scores = train_toy("tagging", elmo__where=where, elmo__tune=tune, fit__num_epochs=2)
    mixes = load(folder).mixing_weights
    assert len(mixes) == num_mixes and mixes == scores.mixes
    for mix in mixes:
        assert len(mix["weights"]) == 3 and sum(mix["weights"]) == pytest.approx(1) and mix["gamma"] > 0


def test_a_task_without_elmo_has_no_mixing_weights(train_toy):
    folder, _ = train_toy("tagging", elmo__where="none", fit__num_epochs=1)
    assert load(folder).mixing_weights == []
