"""elmo.analysis reads the mixing weights that a task learned."""

import pytest

from elmo import InputError
from elmo.analysis import mixing_weights


@pytest.mark.parametrize(
    ("where", "tune", "places"),
    [("input", False, ("input",)), ("both", False, ("input", "output")), ("output", True, ("output",))],
)
def test_the_mixes_of_a_task_are_those_of_its_scores(train_toy, where, tune, places):
    folder, scores = train_toy("tagging", elmo__where=where, elmo__tune=tune, fit__num_epochs=2)
    found = mixing_weights(folder)
    assert tuple(mix.place for mix in found) == places and {mix.task for mix in found} == {folder.name}
    assert [mix.weights for mix in found] == [pytest.approx(mix["weights"], abs=1e-4) for mix in scores.mixes]
    assert [mix.gamma for mix in found] == [pytest.approx(mix["gamma"], abs=1e-4) for mix in scores.mixes]
    assert all(sum(mix.weights) == pytest.approx(1) for mix in found)


def test_a_task_that_learned_no_mix(train_toy):
    folder, _ = train_toy("tagging", elmo__layers="top", fit__num_epochs=1)
    with pytest.raises(InputError, match="has learned no mix of layers"):
        mixing_weights(folder)
