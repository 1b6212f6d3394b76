"""Building blocks: padding, batches and order change nothing, and ELMo is added where configured."""

import pytest
import torch

from elmo.layer import LayerMixes
from elmo.tasks.families import blocks
from elmo.tasks.settings import NetworkSettings
from tests.tasks.toys import small

SENTENCES = [("a", "b", "c"), ("b",), ()]


@pytest.mark.parametrize("kind", ["bilstm", "cnn", "linear"])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_padding_changes_nothing(kind, num_layers):
    torch.manual_seed(0)
    network = blocks.build_sequence_encoder(NetworkSettings(kind=kind, dim=6, num_layers=num_layers), 4)
    inputs = torch.randn(2, 5, 4)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    both = network(inputs, mask)
    alone = network(inputs[1:, :3], mask[1:, :3])
    torch.testing.assert_close(both[1:, :3], alone)
    assert not both[1, 3:].any()


def test_the_bilstm_equals_that_of_torch():
    torch.manual_seed(0)
    network = blocks.build_sequence_encoder(NetworkSettings(dim=6), 4)
    own = torch.nn.LSTM(4, 3, batch_first=True, bidirectional=True)
    for name, value in network.left_to_right[0].named_parameters():
        getattr(own, name).data.copy_(value)
    for name, value in network.right_to_left[0].named_parameters():
        getattr(own, f"{name}_reverse").data.copy_(value)
    inputs = torch.randn(2, 5, 4)
    torch.testing.assert_close(network(inputs, torch.ones(2, 5, dtype=torch.bool)), own(inputs)[0])


def make_encoder(model, **changes):
    settings = small("tagging", **changes)
    elmo = settings.elmo
    mixes = None
    if elmo.where != "none":
        num_mixes = 2 if elmo.where == "both" else 1
        mixes = LayerMixes(3, model.dim, num_mixes=num_mixes, dropout=0.0, layers=elmo.layers)
    words = blocks.Vocabularies(blocks.WordList(["a", "b"] if settings.words.kinds else []), blocks.WordList())

    def read_layers(sentence):
        return model.embed([list(sentence)], layers="all")[0].transpose(1, 0, 2).reshape(len(sentence), 3 * model.dim)

    inputs = blocks.NetworkInputs(words, blocks.BilmReference(None, "", 3, model.dim), read_layers)
    return blocks.Encoder(inputs, blocks.WordFeatures(settings.words, words, None), mixes, settings).eval()


@pytest.mark.parametrize(
    ("where", "layers", "input_dim", "output_dim"),
    [
        ("none", "learned", 8, 16),
        ("input", "learned", 8 + 12, 16),
        ("output", "top", 8, 16 + 12),
        ("both", "concat", 8 + 36, 16 + 36),
    ],
)
def test_elmo_is_added_where_configured_and_batches_change_nothing(tiny_model, where, layers, input_dim, output_dim):
    encoder = make_encoder(tiny_model, elmo__where=where, elmo__layers=layers)
    assert (encoder.input_dim, encoder.output_dim) == (input_dim, output_dim)
    together, _ = encoder(SENTENCES)
    assert together.shape == (3, 3, output_dim)
    assert not together[2].any()
    for row, sentence in enumerate(SENTENCES[:2]):
        alone, _ = encoder([sentence])
        torch.testing.assert_close(together[row, : len(sentence)], alone[0], atol=1e-5, rtol=0)


def test_a_new_mix_is_the_average_of_the_layers(tiny_model):
    encoder = make_encoder(tiny_model, elmo__where="input", words__kinds=[])
    (vectors,) = encoder._mix([SENTENCES[0]], torch.ones(1, 3, dtype=torch.bool))
    expected = torch.from_numpy(tiny_model.embed([list(SENTENCES[0])])[0])
    torch.testing.assert_close(vectors[0], expected, atol=1e-6, rtol=0)


def test_words_are_looked_up_in_lower_case_too():
    words = blocks.WordList(["paris", "The"])
    assert words.ids(["Paris", "The", "the", "paris"]) == [2, 3, 1, 2]


def test_pooling_ranges_equals_pooling_with_masks():
    torch.manual_seed(0)
    states = torch.randn(3, 7, 4, requires_grad=True)
    chosen = [(row, (start, end)) for row in range(3) for start in range(7) for end in range(start + 1, 8)]
    rows, spans = torch.tensor([row for row, _ in chosen]), [span for _, span in chosen]
    inside = blocks.span_mask(spans, 7)
    expected = torch.cat([blocks.pool_max(states[rows], inside), blocks.pool_mean(states[rows], inside)], dim=-1)
    result = blocks.pool_spans(states, rows, spans)
    torch.testing.assert_close(result, expected)
    weights = torch.randn_like(result)
    gradients = [torch.autograd.grad((pooled * weights).sum(), states)[0] for pooled in (result, expected)]
    torch.testing.assert_close(*gradients)


def test_an_empty_range_is_pooled_to_zeros():
    assert not blocks.pool_spans(torch.zeros(1, 1, 4), torch.tensor([0]), [(0, 0)]).any()


def test_pooling_ignores_padding():
    states = torch.tensor([[[1.0], [5.0], [9.0]]])
    mask = torch.tensor([[True, True, False]])
    assert blocks.pool_max(states, mask).item() == 5 and blocks.pool_mean(states, mask).item() == 3
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    assert blocks.pool_max(states, nothing).item() == blocks.pool_mean(states, nothing).item() == 0
    weighted = blocks.AttentionPooling(1)(states, mask).item()
    assert 1 <= weighted <= 5
    assert blocks.AttentionPooling(1)(states, nothing).item() == 0
    assert blocks.attend(states, states, nothing).abs().sum() == 0
    assert blocks.span_mask([(1, 3), (0, 0)], 3).tolist() == [[False, True, True], [False] * 3]
