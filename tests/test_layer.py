"""ElmoLayer: outputs, trained and frozen weights."""

import numpy as np
import pytest
import torch

from elmo import ConfigError, Elmo, ElmoLayer, InputError

SENTENCES = ["the cat sat on the mat", ["a"], "", "two words"]
LENGTHS = [6, 1, 0, 2]


def still(model, **settings):
    """A layer without dropout."""
    return ElmoLayer(model, dropout=0.0, **settings)


def train_step(layer, learning_rate=0.5):
    optimizer = torch.optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=learning_rate)
    sum(mix.square().sum() for mix in layer(SENTENCES).mixes).backward()
    optimizer.step()


def test_each_mix_has_one_vector_per_word_and_zeros_at_padding(tiny_model):
    output = still(tiny_model, num_mixes=3)(SENTENCES)
    assert len(output.mixes) == 3
    assert output.mask.tolist() == [[step < length for step in range(6)] for length in LENGTHS]
    for mix in output.mixes:
        assert mix.shape == (4, 6, 12)
        assert not mix[~output.mask].any()
        assert (mix[output.mask].abs().sum(dim=-1) > 0).all()


def test_a_new_layer_gives_the_average_of_embed(tiny_model):
    layer = still(tiny_model)
    (mix,) = layer(SENTENCES).mixes
    assert layer.output_dim == tiny_model.dim
    for row, length, expected in zip(mix, LENGTHS, tiny_model.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(row[:length].detach(), expected, atol=1e-6)


def test_a_batch_equals_its_sentences(tiny_model):
    layer = still(tiny_model)
    words = [[word.text for word in tiny_model.tokenize(text)] for text in ("the cat sat", "a")]
    from_words, from_batch, from_text = (
        layer(given) for given in (words, layer.indexer.batch(words), ["the cat sat", "a"])
    )
    for output in (from_batch, from_text):
        assert torch.equal(output.mixes[0], from_words.mixes[0])
        assert torch.equal(output.mask, from_words.mask)


def test_mixes_have_weights_of_their_own(own_model):
    layer = still(own_model, num_mixes=2)
    with torch.no_grad():
        layer.mixes[0].weights.copy_(torch.tensor([100.0, 0.0, 0.0]))
        layer.mixes[1].gamma.fill_(2.0)
    first, second = layer(SENTENCES).mixes
    bottom, average = own_model.embed(SENTENCES, layers=0), own_model.embed(SENTENCES)
    np.testing.assert_allclose(first[0].detach(), bottom[0], atol=1e-6)
    np.testing.assert_allclose(second[0].detach(), 2 * average[0], atol=1e-6)


@pytest.mark.parametrize(("layers", "dim"), [("top", 12), ("concat", 36)])
def test_a_layer_may_take_the_top_or_all_side_by_side_and_learn_only_gamma(own_model, layers, dim):
    layer = still(own_model, layers=layers)
    assert layer.output_dim == dim
    (mix,) = layer(SENTENCES).mixes
    expected = own_model.embed(SENTENCES, layers=layers)
    np.testing.assert_allclose(mix[0].detach(), expected[0], atol=1e-6)
    assert layer.mixes[0].weights.shape == (1,)
    train_step(layer)
    assert layer.mixes[0].gamma.item() != 1 and layer.mixes[0].normalized_weights().tolist() == [1.0]


def test_layer_norm_is_over_the_words_of_the_batch_and_not_the_boundaries(tiny_model):
    (mix,) = still(tiny_model, layer_norm=True)(SENTENCES).mixes
    arrays = tiny_model.embed(SENTENCES, layers="all")
    words = np.concatenate(arrays, axis=1).astype(np.float64)  # (L+1, all words, 2D)
    normed = (words - words.mean(axis=(1, 2), keepdims=True)) / words.std(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(mix[0].detach(), normed.mean(axis=0)[:6], atol=1e-5)
    assert not mix[2].any()  # an empty sentence stays zero


def test_a_frozen_layer_learns_its_mixes_alone(own_model):
    layer = still(own_model, num_mixes=2)
    before = own_model.embed(SENTENCES)
    train_step(layer)
    learning = {name for name, parameter in layer.named_parameters() if parameter.requires_grad}
    assert learning == {"mixes.0.weights", "mixes.0.gamma", "mixes.1.weights", "mixes.1.gamma"}
    assert layer.bilm is None
    assert layer.mixes[0].weights.detach().abs().sum() > 0
    for one, other in zip(own_model.embed(SENTENCES), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_tuned_layer_trains_all_its_weights(own_model):
    layer = still(own_model, tune_bilm=True)
    before = own_model.embed(SENTENCES)
    assert all(parameter.requires_grad for parameter in layer.parameters())
    train_step(layer)
    without = [name for name, p in layer.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []
    np.testing.assert_array_equal(own_model.embed(SENTENCES)[0], before[0])
    tuned = layer.to_elmo()
    assert np.abs(tuned.embed(SENTENCES)[0] - before[0]).max() > 1e-3
    (mix,) = layer([SENTENCES[0]]).mixes
    every = tuned.embed(SENTENCES[0], layers="all")
    weights, gamma = layer.mixes[0].normalized_weights().detach().numpy(), layer.mixes[0].gamma.item()
    np.testing.assert_allclose(mix[0].detach(), gamma * np.tensordot(weights, every, axes=1), rtol=0, atol=1e-5)


def test_a_tuned_layer_records_no_gradients_when_the_caller_wants_none(own_model):
    layer = still(own_model, tune_bilm=True)
    recorded = []
    with layer.bilm.register_forward_hook(lambda *call: recorded.append(call[2][0].layers.requires_grad)):
        layer(SENTENCES)
        with torch.no_grad():
            assert not layer(SENTENCES).mixes[0].requires_grad
    assert recorded == [True]  # and without gradients the fast path reads


def test_a_tuned_layer_trains_inside_autocast(own_model):
    layer = still(own_model, tune_bilm=True)
    exact = layer(SENTENCES).mixes[0]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = layer(SENTENCES).mixes[0]
    rounded.sum().backward()
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.05)
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_training_lowers_a_loss(own_model):
    layer = still(own_model, tune_bilm=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = (layer(SENTENCES).mixes[0] - 0.5).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_dropout_is_active_in_training_alone(tiny_model):
    layer = ElmoLayer(tiny_model, dropout=0.5)
    plain = still(tiny_model)(SENTENCES).mixes[0]
    torch.manual_seed(0)
    first, second = (layer.train()(SENTENCES).mixes[0] for _ in range(2))
    assert not torch.equal(first, second)
    real = first[layer(SENTENCES).mask]
    assert 0.2 < (real == 0).float().mean() < 0.8
    kept = first != 0
    torch.testing.assert_close(first[kept], 2 * plain[kept])
    assert torch.equal(layer.eval()(SENTENCES).mixes[0], plain)


def test_the_penalty_is_the_strength_times_the_squared_raw_weights_of_all_mixes(own_model):
    layer = still(own_model, num_mixes=2)
    with torch.no_grad():
        for mix in layer.mixes:
            mix.weights.copy_(torch.tensor([1.0, -2.0, 0.5]))
    penalty = layer.mix_penalty(0.1)
    assert penalty.item() == pytest.approx(0.1 * 2 * (1 + 4 + 0.25))
    penalty.backward()
    for mix in layer.mixes:
        torch.testing.assert_close(mix.weights.grad, 2 * 0.1 * torch.tensor([1.0, -2.0, 0.5]))
        assert mix.gamma.grad is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_mixes": 0}, "num_mixes is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"dropout": float("nan")}, "dropout is nan"),
    ],
)
def test_wrong_settings_are_refused(tiny_model, settings, message):
    with pytest.raises(ConfigError) as raised:
        ElmoLayer(tiny_model, **settings)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("one sentence", "A layer takes a list of sentences or a batch"),
        ([], "The list of sentences is empty"),
        ([["a", 1]], "Sentence 0 has 1 of type int at word 1"),
    ],
)
def test_input_other_than_a_list_of_sentences_is_an_error(tiny_model, sentences, message):
    with pytest.raises(InputError) as raised:
        still(tiny_model)(sentences)
    assert message in str(raised.value)


def test_a_frozen_layer_shares_the_models_word_cache_and_precision(tiny_model):
    model = Elmo(tiny_model.checkpoint(), precision="int8")
    layer = ElmoLayer(model, dropout=0.0)
    sentences = [["a", "frozen", "layer"], ["reads", "as", "the", "model", "does"]]
    output = layer(sentences)
    assert model.cache_info().num_misses > 0
    for number, expected in enumerate(model.embed(sentences)):
        mix = output.mixes[0][number, : len(expected)].detach().numpy()
        np.testing.assert_allclose(mix, expected, atol=1e-6)
    assert model.cache_info().num_hits > 0
    exact = ElmoLayer(tiny_model, dropout=0.0)(sentences)
    assert not torch.equal(output.mixes[0], exact.mixes[0])


def test_a_frozen_layer_on_a_model_that_carries_its_state_reads_on(tiny_model):
    model = Elmo(tiny_model.checkpoint(), state="carry")
    layer = ElmoLayer(model, dropout=0.0)
    first, second = layer([["same", "words"]]), layer([["same", "words"]])
    assert not torch.allclose(first.mixes[0], second.mixes[0])
    model.reset_state()
    assert torch.equal(layer([["same", "words"]]).mixes[0], first.mixes[0])


def test_a_mix_learns_on_a_frozen_layer_inside_inference_of_others(tiny_model):
    layer = ElmoLayer(tiny_model, dropout=0.0)
    with torch.inference_mode():
        tiny_model.embed("warm the cache")
    loss = layer([["warm", "the", "cache"]]).mixes[0].square().sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in layer.mixes.parameters())
    assert layer.bilm is None


@pytest.mark.parametrize("fused", [False, True])
def test_vectors_follow_the_weights_whichever_optimizer_changes_them(own_model, fused):
    layer = ElmoLayer(own_model, tune_bilm=True, dropout=0.0)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=fused)
    with torch.no_grad():
        before = layer([["the", "bank"]]).mixes[0]  # lays the weights out for the fast path
    layer([["the", "bank"]]).mixes[0].sum().backward()
    optimizer.step()
    with torch.no_grad():
        fast = layer([["the", "bank"]]).mixes[0]
    assert (fast - before).abs().max() > 0.01
    torch.testing.assert_close(fast, layer([["the", "bank"]]).mixes[0].detach(), atol=1e-5, rtol=0)
