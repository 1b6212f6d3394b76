"""The training loss with either encoder: equal to the sum over sentences, and decreasing."""

import pytest
import torch

from elmo.config import EncoderConfig, ModelConfig, SoftmaxConfig, TransformerConfig, WordConfig
from elmo.nn.build import build_bilm
from elmo.nn.softmax import NegativeSamples
from elmo.pretrain.loop import Objective
from elmo.pretrain.stream import LMBatch, Position

NUM_WORDS, DIM, NUM_STEPS, NUM_ROWS = 11, 8, 7, 3
BEGIN, END = 0, 1
ENCODERS = {
    "lstm": EncoderConfig(cell_dim=12, output_dim=DIM),
    "transformer": TransformerConfig(num_layers=2, output_dim=DIM, num_heads=2, feed_forward_dim=16, context=3),
}


def make_bilm(kind):
    torch.manual_seed(0)
    return build_bilm(
        ModelConfig(
            encoder=ENCODERS[kind],
            characters=None,
            words=WordConfig(NUM_WORDS, DIM),
            softmax=SoftmaxConfig(NUM_WORDS),
        )
    )


def make_sentences():
    """Rows of sentences that fill two windows exactly; each takes its words and a boundary."""
    generator = torch.Generator().manual_seed(1)
    return [
        [torch.randint(2, NUM_WORDS, (size - 1,), generator=generator) for size in sizes]
        for sizes in ([5, 9], [1, 8, 5], [14])
    ]


def make_windows(rows):
    """Pack sentences as the stream does: a boundary, then the words, reversed for right to left."""
    inputs, targets = (torch.zeros(2, 2 * NUM_STEPS, NUM_ROWS, dtype=torch.long) for _ in range(2))
    keep = torch.ones(2 * NUM_STEPS, NUM_ROWS)
    for row, sentences in enumerate(rows):
        place = 0
        for words in sentences:
            span = slice(place, place + len(words) + 1)
            for direction, (first, last, ordered) in enumerate(((BEGIN, END, words), (END, BEGIN, words.flip(0)))):
                inputs[direction, span, row] = torch.cat([torch.tensor([first]), ordered])
                targets[direction, span, row] = torch.cat([ordered, torch.tensor([last])])
            keep[place, row] = 0.0
            place += len(words) + 1
    for window in (slice(NUM_STEPS), slice(NUM_STEPS, None)):
        yield LMBatch(
            char_ids=None,
            word_ids=torch.arange(NUM_WORDS),
            word_index=inputs[:, window],
            targets=targets[:, window],
            keep=keep[window],
            position=Position((), ()),
        )


@pytest.mark.parametrize("kind", list(ENCODERS))
def test_packed_windows_have_the_loss_of_their_sentences_one_by_one(kind):
    bilm, rows = make_bilm(kind), make_sentences()
    objective = Objective(bilm, dropout=0.5).eval()  # no dropout unless it trains
    losses, state = torch.zeros(2), bilm.zero_state(NUM_ROWS)
    expected = torch.zeros(2)
    with torch.no_grad():
        for batch in make_windows(rows):
            result = objective(batch, state, None)
            losses += torch.stack([result.left_to_right, result.right_to_left])
            state = result.state
        for words in (words for sentences in rows for words in sentences):
            ids = torch.cat([torch.tensor([BEGIN]), words, torch.tensor([END])])
            states, _ = bilm(bilm.tokens(None, ids)[None], torch.tensor([len(ids)]))
            ahead, back = states.layers[-1, 0].chunk(2, dim=-1)
            expected += torch.stack([bilm.softmax.loss(ahead[:-1], ids[1:]), bilm.softmax.loss(back[1:], ids[:-1])])
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("num_samples", [0, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", list(ENCODERS))
def test_a_few_updates_lower_the_loss(kind, dtype, num_samples):
    bilm, windows = make_bilm(kind), list(make_windows(make_sentences()))
    objective = Objective(bilm, dropout=0.1, product_dtype=dtype).train()
    optimizer = torch.optim.AdamW(objective.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)

    def full_loss():
        with torch.no_grad():
            objective.eval()
            state, total = bilm.zero_state(NUM_ROWS), 0.0
            for batch in windows:
                result = objective(batch, state, None)
                state, total = result.state, total + float(result.left_to_right + result.right_to_left)
            objective.train()
            return total / (4 * NUM_STEPS * NUM_ROWS)

    before = full_loss()
    for _ in range(20):
        state = bilm.zero_state(NUM_ROWS)
        for batch in windows:
            samples = NegativeSamples(num_samples, NUM_WORDS, generator) if num_samples else None
            result = objective(batch, state, samples)
            state = result.state
            assert not any(tensor.requires_grad for tensor in state.tensors)  # truncated backpropagation
            optimizer.zero_grad()
            ((result.left_to_right + result.right_to_left) / batch.targets[0].numel()).backward()
            assert all(parameter.grad is not None for parameter in objective.parameters())
            optimizer.step()
    assert full_loss() < 0.9 * before
