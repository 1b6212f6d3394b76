"""Model configurations: JSON round trips, and a message for every mistake."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import (
    OFFICIAL_FILTERS,
    CharacterConfig,
    EncoderConfig,
    ModelConfig,
    SoftmaxConfig,
    TokenizationConfig,
    TransformerConfig,
    WordConfig,
    merge,
)
from elmo.errors import ConfigError

sizes = st.integers(1, 1000)
clips = st.none() | st.floats(0.01, 100)
encoders = st.builds(
    EncoderConfig,
    num_layers=sizes,
    cell_dim=sizes,
    output_dim=sizes,
    cell_clip=clips,
    projection_clip=clips,
    forget_bias=st.floats(-5, 5),
    residual=st.booleans(),
)
transformers = st.integers(1, 8).flatmap(
    lambda num_heads: st.builds(
        TransformerConfig,
        num_layers=sizes,
        output_dim=sizes.map(lambda size: 2 * num_heads * size),
        num_heads=st.just(num_heads),
        feed_forward_dim=sizes,
        context=sizes,
    )
)
characters = st.builds(
    CharacterConfig,
    filters=st.lists(st.tuples(st.integers(1, 7), sizes), min_size=1, max_size=4).map(tuple),
    embedding_dim=sizes,
    num_highways=st.integers(0, 3),
    activation=st.sampled_from(["relu", "tanh"]),
    max_characters=st.integers(7, 60),
    num_characters=sizes,
    alphabet=st.sampled_from(["utf-8", "dictionary"]),
)
words = st.builds(WordConfig, num_words=st.just(9), embedding_dim=sizes, max_word_length=st.none() | sizes)
configs = st.builds(
    ModelConfig,
    encoder=encoders | transformers,
    characters=characters,
    words=st.none() | words,
    softmax=st.none() | st.just(SoftmaxConfig(9)),
    begin_word=st.text(),
    end_word=st.text(),
    unknown_word=st.text(),
)


def message_for(values):
    with pytest.raises(ConfigError) as raised:
        ModelConfig.from_dict(values)
    return str(raised.value)


@settings(deadline=None)
@given(configs)
def test_any_configuration_survives_json(config):
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert ModelConfig.from_dict(config.to_dict()) == config


def test_an_empty_object_is_the_official_original_model():
    config = ModelConfig.from_dict({})
    assert config.encoder == EncoderConfig(2, 4096, 512, True, 3.0, 3.0, 1.0, True)
    assert config.characters.filters == OFFICIAL_FILTERS
    assert (config.characters.embedding_dim, config.characters.max_characters) == (16, 50)
    assert config.characters.num_features == config.num_features == 2048
    assert config.vector_dim == 1024
    assert config.words is config.softmax is None


def test_features_are_counted_over_words_and_characters():
    both = ModelConfig(words=WordConfig(10, 100))
    assert both.num_features == 2148
    assert ModelConfig(words=WordConfig(10, 100), characters=None).num_features == 100


def test_whole_numbers_become_floats_in_float_fields():
    clip = ModelConfig.from_dict({"encoder": {"cell_clip": 3}}).encoder.cell_clip
    assert (clip, type(clip)) == (3.0, float)


def test_all_faults_are_reported_in_one_message():
    message = message_for(
        {
            "encodr": {},
            "encoder": {"num_layers": "two", "residual": 1, "cell_dimm": 4},
            "characters": {"activation": "gelu", "filters": [[1, 2, 3], 5, ["a", 1]]},
            "words": {"num_words": 3.0},
            "softmax": {"num_words": 0},
            "begin_word": None,
        }
    )
    assert message == (
        "The model configuration is not valid: "
        "unknown key 'encodr' (did you mean 'encoder'?); "
        "encoder.num_layers is 'two'; it must be a whole number; "
        "encoder.residual is 1; it must be true or false; "
        "unknown key 'encoder.cell_dimm' (did you mean 'cell_dim'?); "
        "characters.activation is 'gelu'; it must be one of 'relu', 'tanh'; "
        "characters.filters is [1, 2, 3]; it must be a list of 2; "
        "characters.filters is 5; it must be a list of 2; "
        "characters.filters is 'a'; it must be a whole number; "
        "words.num_words is 3.0; it must be a whole number; "
        "'words.embedding_dim' is missing; "
        "softmax.num_words is 0; it must be above 0; "
        "begin_word is None; it must be a string."
    )


def test_an_unknown_key_like_no_other_lists_the_known_ones():
    assert message_for({"softmax": {"num_words": 1, "zzz": 1}}) == (
        "The model configuration is not valid: unknown key 'softmax.zzz' (known keys: num_words, shared)."
    )


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([], "it is []; it must be an object"),
        ({"encoder": None}, "encoder is None"),
        ({"characters": 3}, "characters is 3"),
        ({"characters": {"filters": "abc"}}, "characters.filters is 'abc'"),
        ({"encoder": {"cell_clip": True}}, "encoder.cell_clip is True"),
        ({"encoder": {"num_layers": True}}, "encoder.num_layers is True"),
        ({"characters": {"alphabet": ["utf-8"]}}, "characters.alphabet is ['utf-8']"),
    ],
)
def test_a_wrong_type_is_named_with_the_expected_one(values, fault):
    assert fault in message_for(values)


def test_an_encoder_without_a_kind_is_an_lstm():
    assert ModelConfig.from_dict({"encoder": {"cell_dim": 8}}).encoder == EncoderConfig(cell_dim=8)
    assert ModelConfig.from_dict({"encoder": {"kind": "transformer"}}).encoder == TransformerConfig()


@pytest.mark.parametrize(
    ("encoder", "fault"),
    [
        ({"kind": "gru"}, "encoder.kind is 'gru'; it must be one of 'lstm', 'transformer'"),
        ({"kind": ["lstm"]}, "encoder.kind is ['lstm']; it must be one of 'lstm', 'transformer'"),
        ({"kind": "transformer", "contxt": 3}, "unknown key 'encoder.contxt' (did you mean 'context'?)"),
        ({"kind": "transformer", "cell_clip": 8}, "unknown key 'encoder.cell_clip'"),
        ({"kind": "transformer", "output_dim": 12, "num_heads": 4}, "encoder.output_dim is 12"),
        ({"kind": "transformer", "context": 0}, "encoder.context is 0; it must be above 0"),
    ],
)
def test_settings_of_another_kind_of_encoder_are_named(encoder, fault):
    assert fault in message_for({"encoder": encoder})


@pytest.mark.parametrize("field", ["num_layers", "cell_dim", "output_dim", "cell_clip", "projection_clip"])
@pytest.mark.parametrize("value", [0, -1])
def test_encoder_sizes_and_clips_must_be_above_zero(field, value):
    shown = value if field.endswith(("dim", "layers")) else float(value)
    assert f"encoder.{field} is {shown}; it must be above 0" in message_for({"encoder": {field: value}})


def test_a_clip_that_is_not_a_number_is_refused():
    message = message_for({"encoder": {"cell_clip": math.nan, "forget_bias": -math.inf}})
    assert "encoder.cell_clip is nan; it must be a finite number" in message
    assert "encoder.forget_bias is -inf; it must be a finite number" in message
    with pytest.raises(ConfigError, match="encoder.forget_bias is nan"):
        ModelConfig(encoder=EncoderConfig(forget_bias=math.nan))


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"max_characters": 2, "filters": [[1, 1]]}, "max_characters is 2; it must be at least 3"),
        ({"filters": []}, "filters has 0 entries; 1 to 1000 are possible"),
        ({"filters": [[51, 8]]}, "filters has [51, 8]; the width must be 1 to max_characters (50)"),
        ({"filters": [[0, 8]]}, "filters has [0, 8]; the width must be 1 to max_characters (50)"),
        ({"filters": [[1, 0]]}, "filters has [1, 0]; the width must be 1 to max_characters (50) and the channels"),
        ({"num_highways": -1}, "num_highways is -1; it must be at least 0"),
        ({"embedding_dim": 0}, "embedding_dim is 0; it must be above 0"),
        ({"num_characters": -5}, "num_characters is -5; it must be above 0"),
    ],
)
def test_character_settings_out_of_range_are_named(part, fault):
    assert f"characters.{fault}" in message_for({"characters": part})


def test_word_settings_out_of_range_are_named():
    message = message_for({"words": {"num_words": 0, "embedding_dim": -1, "max_word_length": 0}})
    for name, value in (("num_words", 0), ("embedding_dim", -1), ("max_word_length", 0)):
        assert f"words.{name} is {value}; it must be above 0" in message


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: ModelConfig(characters=None), "characters and words are both null"),
        (
            lambda: ModelConfig(characters=CharacterConfig(activation="gelu")),  # type: ignore[arg-type]
            "characters.activation is 'gelu'; it must be one of 'relu', 'tanh'",
        ),
        (
            lambda: ModelConfig(tokenization=TokenizationConfig(scripts=("Han", "Elvish"))),  # type: ignore[arg-type]
            "tokenization.scripts is 'Elvish'; it must be one of 'Han', 'Hiragana'",
        ),
        (lambda: ModelConfig(token_projection=False), "token_projection is false"),
        (lambda: ModelConfig(encoder=EncoderConfig(projected=False)), "encoder.projected is false"),
        (
            lambda: ModelConfig(words=WordConfig(5, 4), softmax=SoftmaxConfig(6)),
            "words.num_words (5) and softmax.num_words (6) must be equal",
        ),
    ],
)
def test_contradictions_are_refused_however_the_configuration_is_made(make, fault):
    with pytest.raises(ConfigError) as raised:
        make()
    assert fault in str(raised.value)


def test_settings_that_agree_are_no_contradiction():
    config = ModelConfig(
        encoder=EncoderConfig(cell_dim=8, output_dim=8, projected=False),
        characters=CharacterConfig(filters=((1, 3), (2, 5))),
        token_projection=False,
    )
    assert ModelConfig.from_dict(config.to_dict()) == config


def test_a_setting_that_is_not_used_does_not_change_the_fingerprint_of_earlier_models():
    config = ModelConfig(tokenization=TokenizationConfig(units="characters"))
    assert config.to_dict()["tokenization"] == {"units": "characters", "scripts": ["Han"]}


def test_changes_are_merged_nested_or_by_dotted_name():
    values = {"encoder": {"cell_dim": 4, "kind": "lstm"}, "words": None}
    changes = {"encoder.cell_dim": 8, "words": {"num_words": 3}, "characters.filters": [[1, 2]]}
    merge(values, changes)
    assert values == {
        "encoder": {"cell_dim": 8, "kind": "lstm"},
        "words": {"num_words": 3},
        "characters": {"filters": [[1, 2]]},
    }
    merge(values, {"words.num_words": 5, "encoder": None})
    assert changes["words"] == {"num_words": 3} and values["words"] == {"num_words": 5} and values["encoder"] is None
