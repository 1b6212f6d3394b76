"""Request models: FastAPI validates requests with them and describes them in the OpenAPI document.

Responses are plain dictionaries, which orjson serializes; the docstrings of the routes describe them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from elmo.inference.layers import LayerName

Text: TypeAlias = str | list[str]  # a sentence, or its words
MAX_MAPPED = 500  # sentences on one map


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[list[str], Field(min_length=1, description="A text or a list of texts."), BeforeValidator(_as_list)]
Sentences = Annotated[
    list[Text], Field(min_length=1, description="Sentences, each a text or a list of words."), BeforeValidator(_as_list)
]
Sentence = Annotated[Text, Field(description="A text with one word in [brackets], or a list of words.")]
Weight = Annotated[float, Field(ge=-1e6, le=1e6)]
LayerChoice = Annotated[
    LayerName | int | tuple[Weight, ...],
    Field(
        description="A name, the number of a layer, or one weight per layer; auto is meaning if the model has a "
        "context layer, else average."
    ),
]
ModelName = Annotated[
    str | None, Field(description="A name from GET /models; if omitted, chosen by the language of the text.")
]
Encoding = Annotated[
    Literal["float", "base64"], Field(description="Lists of numbers, or base64 of little-endian float32.")
]
Index = Annotated[
    int | None,
    Field(ge=-(2**31), lt=2**31, description="Index of the word, from 0; if omitted, the word in [brackets]."),
]
WordNumber = Annotated[int, Field(ge=0, lt=2**31)]
SplitOnSpaces = Annotated[bool, Field(description="Split text at spaces only, instead of tokenizing it.")]


class ApiRequest(BaseModel):
    """The body of a request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class EmbeddingsRequest(ApiRequest):
    """The request of OpenAI's API: one vector per text, as `elmo encode` computes it."""

    model_config = _example(input=["I went to the bank", "by the river"])
    input: Texts
    model: ModelName = None
    encoding_format: Encoding = "float"
    dimensions: int | None = Field(
        None, description="If given, must equal the dimensions of the model: vectors are not truncated."
    )
    user: str | None = Field(None, description="Ignored; accepted for OpenAI's clients.")


class EmbedRequest(ApiRequest):
    """Word vectors of sentences."""

    model_config = _example(sentences=["I went to the bank"], layers="top")
    sentences: Sentences
    model: ModelName = None
    layers: LayerChoice = "auto"
    spans: list[list[tuple[WordNumber, WordNumber]]] | None = Field(
        None,
        description="For each sentence, ranges of words [start, end): one phrase vector per range, instead of one "
        "vector per word.",
    )
    split_on_spaces: SplitOnSpaces = False
    encoding_format: Encoding = "float"


class SimilarityRequest(ApiRequest):
    """A word of one sentence and a word of another, each in [brackets] or named by its index."""

    model_config = _example(
        sentence_a="I went to the [bank] to deposit money", sentence_b="I sat by the [bank] of the river"
    )
    sentence_a: Sentence
    sentence_b: Sentence
    index_a: Index = None
    index_b: Index = None
    model: ModelName = None
    layers: LayerChoice = "auto"


class SubstitutesRequest(ApiRequest):
    """A sentence and the word to replace."""

    model_config = _example(sentence="I went to the [bank]", top_k=5)
    sentence: Sentence
    index: Index = None
    top_k: int = Field(10, ge=1, le=1000)
    punctuation: bool = Field(False, description="Include punctuation.")
    same_word: bool = Field(False, description="Include the word itself.")
    model: ModelName = None


class ScoreRequest(ApiRequest):
    """Sentences to score with the language model."""

    model_config = _example(sentences=["I went to the bank"])
    sentences: Sentences
    model: ModelName = None
    split_on_spaces: SplitOnSpaces = False


class SensesRequest(ApiRequest):
    """Three or more sentences, each with the word in [brackets]."""

    model_config = _example(
        sentences=["cash in the [bank]", "the [bank] lent money", "the [bank] of the river"], num_senses=2
    )
    sentences: list[str] = Field(min_length=3, max_length=MAX_MAPPED)
    num_senses: int | None = Field(None, ge=1, le=8, description="If omitted, it is chosen by clustering.")
    layers: list[int | str] | None = Field(
        None,
        max_length=16,
        description="Layers to map; by default all of them, and meaning if the model has a context layer.",
    )
    model: ModelName = None


class TaskRequest(ApiRequest):
    """Inputs of a task: texts, pairs of texts, texts with <e1> and <e2>, (question, passage), or senses."""

    model_config = _example(items=["I went to New York"])
    items: list[Any] = Field(min_length=1)
