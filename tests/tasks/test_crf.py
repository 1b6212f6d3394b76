"""The CRF agrees with a search over all sequences."""

import itertools

import torch

from elmo.tasks.families.tagging import Crf


def make(num_tags=3, length=4, seed=0):
    torch.manual_seed(seed)
    crf = Crf(num_tags)
    for parameter in crf.parameters():
        parameter.data.normal_()
    return crf, torch.randn(1, length, num_tags)


def score(crf, scores, tags):
    total = crf.first[tags[0]] + crf.last[tags[-1]] + sum(scores[0, step, tag] for step, tag in enumerate(tags))
    return total + sum(crf.transitions[one, other] for one, other in itertools.pairwise(tags))


def test_the_loss_normalizes_over_all_sequences():
    crf, scores = make()
    everything = list(itertools.product(range(3), repeat=4))
    normalizer = torch.logsumexp(torch.stack([score(crf, scores, tags) for tags in everything]), dim=0)
    loss = crf.loss(scores, torch.tensor([[2, 0, 1, 1]]), torch.ones(1, 4, dtype=torch.bool))
    torch.testing.assert_close(loss, normalizer - score(crf, scores, (2, 0, 1, 1)))


def test_decoding_finds_the_best_of_all_sequences():
    for seed in range(5):
        crf, scores = make(seed=seed)
        best = max(itertools.product(range(3), repeat=4), key=lambda tags: score(crf, scores, tags).item())
        assert crf.decode(scores, torch.ones(1, 4, dtype=torch.bool)) == [list(best)]


def test_padding_changes_nothing_and_an_empty_sentence_is_fine():
    crf, scores = make()
    tags, mask = torch.tensor([[2, 0, 1, 1]]), torch.ones(1, 4, dtype=torch.bool)
    padded = torch.cat([scores, torch.full((1, 2, 3), 50.0)], dim=1).repeat(2, 1, 1)
    padded_mask = torch.zeros(2, 6, dtype=torch.bool)
    padded_mask[0, :4] = True
    padded_tags = torch.cat([tags, torch.zeros(1, 2, dtype=torch.int64)], dim=1).repeat(2, 1)
    torch.testing.assert_close(crf.loss(padded, padded_tags, padded_mask), crf.loss(scores, tags, mask))
    assert crf.decode(padded, padded_mask) == [*crf.decode(scores, mask), []]


def test_forbidden_transitions_are_never_decoded():
    allowed = torch.tensor([[True, True, False], [True, True, False], [True, True, True], [True, True, True]])
    crf = Crf(3, allowed)
    scores = torch.zeros(1, 3, 3)
    scores[0, :, 2] = 5.0
    scores[0, 0, 0] = 4.0
    (tags,) = crf.decode(scores, torch.ones(1, 3, dtype=torch.bool))
    assert tags[0] != 2 and (0, 2) not in itertools.pairwise(tags)
    assert 2 in tags
