"""Keywords and attributes of other libraries lead to ours."""

import pytest

from elmo.errors import InputError, explain_keywords


class Model:
    @classmethod
    @explain_keywords
    def from_pretrained(cls, name: str | None = None, *, precision: str = "auto", device: str = "cpu") -> "Model":
        return cls()

    @explain_keywords
    def embed(self, sentences: str, *, layers: str = "auto", num_threads: int | None = None) -> str:
        return f"{sentences} {layers}"

    @explain_keywords
    def fails(self, value: int) -> int:
        return value + None  # type: ignore[operator]


@pytest.mark.parametrize(
    ("keyword", "ours"),
    [("torch_dtype", "precision"), ("dtype", "precision"), ("cache_dir", "ELMO_CACHE"), ("device_map", "device="),
     ("devcie", "device")],
)  # fmt: skip
def test_keywords_of_other_libraries_name_ours(keyword, ours):
    with pytest.raises(TypeError, match=rf"from_pretrained\(\) has no argument '{keyword}'; use .*{ours}"):
        Model.from_pretrained(**{keyword: "x"})


@pytest.mark.parametrize(
    ("keyword", "ours"),
    [("layer", "layers="), ("output_value", "encode"), ("prompt", "no prompts"), ("truncate_dim", "slice"),
     ("threads", "num_threads"), ("xyz", "one of sentences, layers, num_threads")],
)  # fmt: skip
def test_keywords_of_methods_name_ours(keyword, ours):
    with pytest.raises(TypeError, match=ours):
        Model().embed("a", **{keyword: 1})


def test_a_correct_call_and_other_type_errors_pass_through():
    assert Model().embed("a", layers="top") == "a top"
    with pytest.raises(TypeError, match="NoneType"):
        Model().fails(1)
    with pytest.raises(TypeError, match="positional"):
        Model().embed()


def test_attributes_of_other_libraries_name_ours(tiny_model):
    with pytest.raises(AttributeError, match="'Elmo' object has no attribute 'fill_mask'; use substitutes"):
        _ = tiny_model.fill_mask
    assert not hasattr(tiny_model, "no_such_thing")


def test_a_mapping_is_not_a_list_of_sentences(tiny_model):
    with pytest.raises(InputError, match="give a string or a list of sentences"):
        tiny_model.encode({"a": "I went"})
