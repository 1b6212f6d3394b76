"""AllenNLP's Elmo."""

import copy
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo import CheckpointError, ConfigError, InputError
from elmo.checkpoint.formats.hdf5 import write_hdf5
from elmo.compat.allennlp import Elmo, batch_to_ids
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, WordConfig
from elmo.device import run_frozen
from elmo.model import Elmo as Model

from .conftest import WORDS

VOCABULARY = ["@@PADDING@@", "@@UNKNOWN@@", *sorted({word for words in WORDS for word in words}), "<S>"]


def mixes_of(output, number=0):
    return output["elmo_representations"][number]


def only_layer(number):
    return [0.0 if layer == number else -1e4 for layer in range(3)]


def word_ids(sentences):
    width = max(map(len, sentences))
    return torch.tensor([[VOCABULARY.index(w) for w in s] + [0] * (width - len(s)) for s in sentences])


@pytest.mark.parametrize("layer", range(3))
def test_both_batches_of_the_original_with_the_state_carried(original_vectors: Path, layer):
    folder = original_vectors / "tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    module = Elmo(
        folder / "options.json",
        folder / "weights.hdf5",
        1,
        dropout=0.0,
        scalar_mix_parameters=only_layer(layer),
    )
    with np.load(folder / "expected.npz") as expected:
        for name in ("first", "second"):
            mixed = mixes_of(module(batch_to_ids(sentences[name]))).detach().numpy()
            for row, words in enumerate(sentences[name]):
                np.testing.assert_allclose(mixed[row, : len(words)], expected[f"{name}_{row}"][layer], atol=1e-5)


def test_output_shapes_and_mask(tiny_files):
    module = Elmo(*tiny_files, 2).eval()
    output = module(batch_to_ids(WORDS))
    assert module.get_output_dim() == 12
    assert [mix.shape for mix in output["elmo_representations"]] == [(3, 5, 12)] * 2
    assert output["mask"].dtype == torch.bool
    assert output["mask"].sum(dim=1).tolist() == [5, 3, 1]
    assert not mixes_of(output)[~output["mask"]].any()


def test_vectors_are_those_of_the_engine(tiny_files, tiny_model: Model):
    output = Elmo(*tiny_files, 1).eval()(batch_to_ids(WORDS))
    for row, array in enumerate(tiny_model.embed(WORDS)):
        np.testing.assert_allclose(mixes_of(output)[row, : len(array)].detach(), array, atol=1e-6)


def test_state_is_carried_by_default_and_only_then(tiny_files):
    ids = batch_to_ids(WORDS)
    carrying, fresh = Elmo(*tiny_files, 1).eval(), Elmo(*tiny_files, 1, stateful=False).eval()
    first, second = mixes_of(carrying(ids)), mixes_of(carrying(ids))
    assert not torch.allclose(first, second, atol=1e-4)
    torch.testing.assert_close(mixes_of(fresh(ids)), first)
    torch.testing.assert_close(mixes_of(fresh(ids)), first)
    carrying.reset_state()
    torch.testing.assert_close(mixes_of(carrying(ids)), first)


def test_state_is_carried_in_training_as_in_evaluation(tiny_files):
    ids = batch_to_ids(WORDS)
    trained, evaluated = Elmo(*tiny_files, 1, dropout=0.0), Elmo(*tiny_files, 1).eval()
    trained(ids), evaluated(ids)
    torch.testing.assert_close(mixes_of(trained(ids)), mixes_of(evaluated(ids)))


def test_a_row_of_padding_reads_both_boundaries(tiny_files, tiny_model: Model):
    module = Elmo(*tiny_files, 1).eval()
    engine = Model(tiny_model.checkpoint(), state="carry")
    assert module(batch_to_ids([["a"], []]))["mask"].tolist() == [[True], [False]]
    engine.embed([["a"], []])
    output = module(batch_to_ids(WORDS[:2]))
    for row, array in enumerate(engine.embed(WORDS[:2])):
        np.testing.assert_allclose(mixes_of(output)[row, : len(array)].detach(), array, atol=1e-6)


def test_gradients_reach_the_mixes_alone_while_the_bilm_is_frozen(tiny_files):
    module = Elmo(*tiny_files, 1, dropout=0.0)
    for _ in range(2):
        mixes_of(module(batch_to_ids(WORDS))).square().sum().backward()
    trained = {name for name, parameter in module.named_parameters() if parameter.grad is not None}
    assert trained == {"mixes.0.weights", "mixes.0.gamma"}
    assert {name for name, parameter in module.named_parameters() if parameter.requires_grad} == trained


def test_gradients_reach_the_bilm_in_every_batch_if_requested(tiny_files):
    module = Elmo(*tiny_files, 1, requires_grad=True, dropout=0.0)
    for _ in range(2):
        mixes_of(module(batch_to_ids(WORDS))).square().sum().backward()
    without = [name for name, parameter in module.named_parameters() if parameter.grad is None]
    assert without == []


def test_training_may_follow_inference_mode(tiny_files):
    module = Elmo(*tiny_files, 1, requires_grad=True)
    with torch.inference_mode():
        module(batch_to_ids(WORDS))
    mixes_of(module(batch_to_ids(WORDS))).sum().backward()


def test_given_mixing_weights_are_used_and_not_learned(tiny_files, tiny_model: Model):
    module = Elmo(*tiny_files, 1, scalar_mix_parameters=only_layer(2)).eval()
    output = module(batch_to_ids(WORDS[:1]))
    np.testing.assert_allclose(mixes_of(output)[0], tiny_model.embed(WORDS[:1], layers="top")[0], atol=1e-6)
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_layer_norm_counts_the_boundaries(tiny_files, tiny_model: Model):
    module = Elmo(*tiny_files, 1, do_layer_norm=True).eval()
    output = module(batch_to_ids(WORDS))
    states = run_frozen(tiny_model._runtime, tiny_model._indexer.batch(WORDS))
    layers, real = states.layers.double().numpy(), states.mask.numpy()
    normed = []
    for layer in layers:
        values = layer[real]  # every real position, boundaries too
        normed.append((layer - values.mean()) / np.sqrt(((values - values.mean()) ** 2).mean() + 1e-13))
    expected = sum(normed) / 3
    for row, words in enumerate(WORDS):
        np.testing.assert_allclose(
            mixes_of(output)[row, : len(words)].detach(), expected[row, 1 : len(words) + 1], atol=1e-5
        )


def test_boundaries_are_kept_on_demand(tiny_files):
    kept = Elmo(*tiny_files, 1, keep_sentence_boundaries=True).eval()(batch_to_ids(WORDS))
    cut = Elmo(*tiny_files, 1).eval()(batch_to_ids(WORDS))
    assert mixes_of(kept).shape == (3, 7, 12)
    assert kept["mask"].sum(dim=1).tolist() == [7, 5, 3]
    torch.testing.assert_close(mixes_of(kept)[0, 1:-1], mixes_of(cut)[0])
    torch.testing.assert_close(mixes_of(kept)[2, 1], mixes_of(cut)[2, 0])


@pytest.mark.parametrize("keep_boundaries", [False, True])
def test_inputs_of_higher_rank_keep_their_shape(tiny_files, keep_boundaries):
    make = lambda: Elmo(*tiny_files, 1, keep_sentence_boundaries=keep_boundaries).eval()  # noqa: E731
    ids = batch_to_ids([*WORDS, *WORDS[::-1]])
    flat, nested = make()(ids), make()(ids.view(2, 1, 3, 5, 50))
    width = 7 if keep_boundaries else 5
    assert mixes_of(nested).shape == (2, 1, 3, width, 12) and nested["mask"].shape == (2, 1, 3, width)
    torch.testing.assert_close(mixes_of(nested).view(6, width, 12), mixes_of(flat))


def test_padding_beyond_the_longest_sentence_changes_nothing(tiny_files):
    ids = batch_to_ids(WORDS)
    wide = torch.cat([ids, torch.zeros(3, 4, 50, dtype=torch.int64)], dim=1)
    output = Elmo(*tiny_files, 1).eval()(wide)
    assert mixes_of(output).shape == (3, 9, 12) and output["mask"].sum() == 9
    torch.testing.assert_close(mixes_of(output)[:, :5], mixes_of(Elmo(*tiny_files, 1).eval()(ids)))


def test_dropout_works_in_training_alone(tiny_files):
    module, ids = Elmo(*tiny_files, 1, stateful=False), batch_to_ids(WORDS)
    assert (mixes_of(module(ids))[0] == 0).float().mean() > 0.2
    module.eval()
    assert not (mixes_of(module(ids))[0] == 0).any()
    torch.testing.assert_close(mixes_of(module(ids)), mixes_of(module(ids)))


def test_cached_words_give_the_vectors_of_their_characters(tiny_files):
    cached = Elmo(*tiny_files, 1, vocab_to_cache=VOCABULARY).eval()
    plain = Elmo(*tiny_files, 1).eval()
    for sentences in (WORDS, [["<S>", "bank"], [], ["the"]]):
        by_words = cached(batch_to_ids(sentences), word_ids(sentences))
        by_characters = plain(batch_to_ids(sentences))
        torch.testing.assert_close(mixes_of(by_words), mixes_of(by_characters))
        assert torch.equal(by_words["mask"], by_characters["mask"])
    nested = cached(None, word_ids([*WORDS, *WORDS]).view(2, 3, 5))
    assert mixes_of(nested).shape == (2, 3, 5, 12)


def test_an_id_beyond_the_cached_words_means_the_characters(tiny_files):
    module, plain = Elmo(*tiny_files, 1, vocab_to_cache=VOCABULARY).eval(), Elmo(*tiny_files, 1).eval()
    ids = batch_to_ids([["unseen", "bank"]])
    torch.testing.assert_close(mixes_of(module(ids, torch.tensor([[999, 4]]))), mixes_of(plain(ids)))
    with pytest.raises(InputError, match="indices into vocab_to_cache"):
        module(None, torch.tensor([[999, 4]]))


def test_the_state_dict_of_the_mixes_round_trips(tiny_files):
    module, other = Elmo(*tiny_files, 2), Elmo(*tiny_files, 2)
    with torch.no_grad():
        module.get_parameter("mixes.1.weights").copy_(torch.tensor([1.0, 2.0, 3.0]))
    state = module.state_dict()
    assert len(state) == 4
    other.load_state_dict(state)
    module.eval(), other.eval()
    ids = batch_to_ids(WORDS)
    torch.testing.assert_close(mixes_of(module(ids), 1), mixes_of(other(ids), 1))


def test_a_tuned_model_saves_its_bilm(tiny_files):
    assert len(Elmo(*tiny_files, 1, requires_grad=True).state_dict()) > 20


def test_copies_and_pickles_begin_from_zero(tiny_files):
    module, ids = Elmo(*tiny_files, 1).eval(), batch_to_ids(WORDS)
    first = mixes_of(module(ids))
    torch.testing.assert_close(mixes_of(copy.deepcopy(module)(ids)), first)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    torch.testing.assert_close(mixes_of(torch.load(file, weights_only=False)(ids)), first)


def test_options_and_weights_may_be_in_different_folders(tiny_files, tmp_path: Path):
    shutil.copy(tiny_files[0], tmp_path / "my_options.json")
    assert Elmo(tmp_path / "my_options.json", tiny_files[1], 1).get_output_dim() == 12


def test_official_addresses_mean_the_cached_model(cache_official):
    stem = "2x1024_128_2048cnn_1xhighway"
    cache_official("small", stem)
    base = f"https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/{stem}/elmo_{stem}_"
    assert Elmo(base + "options.json", base + "weights.hdf5", 1).get_output_dim() == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"num_output_representations": 0},
            "num_mixes is 0",
        ),
        (
            {"num_output_representations": "1"},
            "num_mixes is '1'",
        ),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"dropout": "0.5"}, "dropout is '0.5'"),
        ({"scalar_mix_parameters": [1.0]}, "1 mixing weights were given for 3 layers"),
    ],
)
def test_settings_out_of_range_are_refused(tiny_files, arguments, message):
    with pytest.raises(ConfigError) as caught:
        Elmo(*tiny_files, **{"num_output_representations": 1, **arguments})
    assert message in str(caught.value)


def test_missing_files_are_named(tiny_files):
    with pytest.raises(CheckpointError, match=r"weight_file is 'nowhere.hdf5', which is not a file"):
        Elmo(tiny_files[0], "nowhere.hdf5", 1)
    with pytest.raises(CheckpointError, match="options_file is None, which is not a file"):
        Elmo(None, tiny_files[1], 1)


def test_settings_may_be_numpy_arrays(tiny_files):
    module = Elmo(
        *tiny_files, 1, vocab_to_cache=np.array(VOCABULARY), scalar_mix_parameters=np.array(only_layer(1))
    ).eval()
    plain = Elmo(*tiny_files, 1, scalar_mix_parameters=only_layer(1)).eval()
    torch.testing.assert_close(mixes_of(module(None, word_ids(WORDS))), mixes_of(plain(batch_to_ids(WORDS))))


def test_a_model_of_whole_words_is_refused(tmp_path: Path):
    words = ("<S>", "</S>", "<UNK>", "a")
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=1, cell_dim=6, output_dim=4),
        characters=None,
        words=WordConfig(num_words=4, embedding_dim=4),
        token_projection=False,
    )
    write_hdf5(Model.from_config(config, vocabulary=words).checkpoint(), tmp_path)
    with pytest.raises(CheckpointError, match="is a word-level model and takes no character ids"):
        Elmo(tmp_path / "options.json", tmp_path / "weights.hdf5", 1)


def test_one_layer_models_work(tmp_path: Path):
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=1, cell_dim=6, output_dim=4),
        characters=CharacterConfig(filters=((1, 5),), embedding_dim=3, num_highways=1),
    )
    write_hdf5(Model.from_config(config).checkpoint(), tmp_path)
    module = Elmo(tmp_path / "options.json", tmp_path / "weights.hdf5", 1, scalar_mix_parameters=[0.0, 1.0])
    assert mixes_of(module(batch_to_ids(WORDS))).shape == (3, 5, 8)
