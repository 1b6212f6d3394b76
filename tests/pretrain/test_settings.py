"""Settings: presets, a file, single changes, and all faults in one message."""

import itertools

import pytest

from elmo import ConfigError
from elmo.pretrain.loop import rate_at
from elmo.pretrain.settings import PRESETS, OptimizerSettings, TrainSettings, read_settings


def test_changes_go_over_the_file_and_the_file_over_the_preset(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('preset = "tiny"\nnum_rows = 8\nseed = 5\n[optimizer]\nlearning_rate = 0.3\n')
    settings = read_settings(file=file, changes={"seed": 6, "model.encoder.num_layers": 3})
    tiny = PRESETS["tiny"]
    assert (settings.num_rows, settings.seed, settings.optimizer.learning_rate) == (8, 6, 0.3)
    assert settings.model.encoder.num_layers == 3
    assert settings.model.characters == tiny.model.characters and settings.num_samples == tiny.num_samples


def test_a_file_can_ask_for_words_without_characters(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[model]\ncharacters = false\n[model.words]\nembedding_dim = 7\n")
    model = read_settings(preset="tiny", file=file).model
    assert model.characters is None and model.words.embedding_dim == 7


def test_a_given_preset_overrides_that_of_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('preset = "tiny"\n')
    assert read_settings(preset="medium", file=file) == PRESETS["medium"]


def test_the_presets_have_the_official_sizes():
    sizes = {name: PRESETS[name].model for name in ("small", "medium", "original")}
    assert {name: (model.encoder.cell_dim, model.encoder.output_dim) for name, model in sizes.items()} == {
        "small": (1024, 128), "medium": (2048, 256), "original": (4096, 512),
    }  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_being_written_down(name):
    settings = read_settings(preset=name)
    assert read_settings(changes=settings.to_dict()) == settings


@pytest.mark.parametrize(("supported", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_an_automatic_precision_is_settled_when_settings_are_read(monkeypatch, supported, precision):
    monkeypatch.setattr("elmo.device.supports_bfloat16", lambda: supported)
    assert read_settings(preset="en-small").precision == precision
    assert read_settings(preset="en-small", changes={"precision": "float32"}).precision == "float32"


def test_all_faults_are_reported_together():
    changes = {"num_rows": 0, "dropout": 1.5, "optimizer.kind": "sgd", "num_step": 3}
    with pytest.raises(ConfigError) as caught:
        read_settings(changes=changes)
    for part in ("optimizer.kind is 'sgd'", "unknown key 'num_step' (did you mean 'num_steps'?)"):
        assert part in str(caught.value)
    with pytest.raises(ConfigError, match="num_rows is 0"):
        read_settings(changes={"num_rows": 0, "dropout": 1.5})


def test_missing_files_and_unknown_presets_are_errors(tmp_path):
    with pytest.raises(ConfigError, match="The preset 'huge' is not known"):
        read_settings(preset="huge")
    with pytest.raises(ConfigError, match="The preset \\['tiny'\\] is not known"):
        read_settings(changes={"preset": ["tiny"]})
    with pytest.raises(ConfigError, match="could not be read: No such file"):
        read_settings(file=tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigError, match="bad.toml is not valid TOML"):
        read_settings(file=tmp_path / "bad.toml")


def test_the_learning_rate_follows_its_schedule():
    constant = OptimizerSettings(learning_rate=0.2)
    assert [rate_at(update, 100, constant) for update in (0, 50, 99)] == [0.2, 0.2, 0.2]
    cosine = OptimizerSettings(kind="adamw", learning_rate=1.0, warmup_steps=10, decay="cosine")
    rates = [rate_at(update, 110, cosine) for update in range(110)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == rates[10] == 1.0
    assert all(one >= other for one, other in itertools.pairwise(rates[10:]))
    assert rates[-1] == pytest.approx(0.1, abs=0.001)
    linear = OptimizerSettings(learning_rate=1.0, linear_decay_steps=4)
    assert [rate_at(update, 10, linear) for update in range(5, 10)] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_weight_decay_without_adamw_is_a_setting_that_does_nothing_and_refused():
    with pytest.raises(ConfigError, match="weight_decay is 0.1, but adagrad has none"):
        read_settings(changes={"optimizer.weight_decay": 0.1})
    assert TrainSettings().optimizer.kind == "adagrad"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"model.softmax": {"num_words": 5}}, "model.softmax"),
        ({"model.words": {"num_words": 99, "embedding_dim": 7}}, "model.words.num_words"),
        ({"model.characters.alphabet": "dictionary"}, "model.characters.alphabet"),
        ({"model.characters.num_characters": 300}, "model.characters.num_characters"),
        ({"model.unknown_word": "<oov>"}, "model.unknown_word"),
    ],
)
def test_settings_that_training_would_overwrite_are_refused_by_name(changes, name):
    with pytest.raises(ConfigError, match=f"{name} follows from the corpus; leave it out"):
        read_settings(preset="tiny", changes=changes)


def test_settings_of_a_run_that_reads_words_survive_being_written_down():
    changes = {"model.words": {"embedding_dim": 7}, "share_softmax": False}
    settings = read_settings(preset="tiny", changes=changes)
    assert read_settings(changes=settings.to_dict()) == settings
