"""Requests and responses. FastAPI checks requests by these models and describes both in the OpenAPI document.

Responses are plain dictionaries, which are described but not checked: orjson writes them as they are.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from elmo.inference.substitution import Substitute

Text: TypeAlias = str | list[str]
MAX_WEIGHT = 1e6
MAX_MAPPED = 500  # sentences on one map
AUTO = "auto is meaning where the model has a context layer, else average."
_LAYER_NAMES = ("auto", "average", "top", "all", "concat", "meaning")


def _fault(message: str) -> PydanticCustomError:
    # A message of its own is a template, in which braces would be placeholders.
    return PydanticCustomError("elmo", "{message}", {"message": message})


def _check_input(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise _fault("input must be a string or a list of at least one string; token ids are not accepted.")
    return texts


def _check_sentence(value: Any) -> Text:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise _fault("A sentence must be a string or a list of words, which are strings.")


def _check_sentences(value: Any) -> list[Text]:
    sentences = [value] if isinstance(value, str) else value
    if not isinstance(sentences, list) or not sentences:
        raise _fault("sentences must be a string or a list of at least one sentence.")
    return [_check_sentence(sentence) for sentence in sentences]


def _check_layers(value: Any) -> str | int | tuple[float, ...]:
    if value in _LAYER_NAMES or type(value) is int:
        return value  # type: ignore[no-any-return]
    if isinstance(value, list) and all(type(weight) in (int, float) for weight in value):
        if not all(abs(weight) <= MAX_WEIGHT for weight in value):
            raise _fault(f"layers has a weight beyond {MAX_WEIGHT:g}; use smaller weights.")
        return tuple(map(float, value))
    raise _fault(f"layers must be {', '.join(_LAYER_NAMES)}, the number of a layer, or one weight per layer.")


Texts = Annotated[
    list[str], PlainValidator(_check_input, json_schema_input_type=str | Annotated[list[str], Field(min_length=1)])
]
Sentence = Annotated[Text, PlainValidator(_check_sentence, json_schema_input_type=Text)]
Sentences = Annotated[
    list[Text],
    PlainValidator(_check_sentences, json_schema_input_type=str | Annotated[list[Text], Field(min_length=1)]),
]
LayerChoice = Annotated[
    str | int | tuple[float, ...],
    PlainValidator(
        _check_layers,
        json_schema_input_type=Literal[_LAYER_NAMES] | int | list[float],
    ),
]
ModelName = Annotated[
    str | None, Field(description="A name from GET /models; if omitted, the one for the language of the text.")
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
# Arrays are written to JSON as they are, so they are described but not checked.
Numbers = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "number"}})]
Flags = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "boolean"}})]
Vectors = Annotated[Any, WithJsonSchema({"type": ["array", "string"]})]


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
    dimensions: int | None = Field(None, description="The dimension of the model, or nothing: no vector is truncated.")
    user: str | None = Field(None, description="Accepted for OpenAI's clients and ignored.")


class EmbedRequest(ApiRequest):
    """Word vectors of sentences, each a string or a list of words."""

    model_config = _example(sentences=["I went to the bank"], layers="top")
    sentences: Sentences
    model: ModelName = None
    layers: LayerChoice = Field("auto", description=AUTO)
    spans: list[list[tuple[WordNumber, WordNumber]]] | None = Field(
        None,
        description="For each sentence, ranges of words [start, end): one vector per range, that of the phrase, "
        "instead of one per word.",
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
    layers: LayerChoice = Field("auto", description=AUTO)


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


class NeighborsRequest(ApiRequest):
    """A sentence and the word whose nearest occurrences in the index are wanted."""

    model_config = _example(sentence="a spectacular [play] on the ball", top_k=3)
    sentence: Sentence
    index: Index = None
    words: Literal["any", "same", "other"] = "any"
    layers: list[int | str] | None = Field(
        None, max_length=16, description="Layers of the index: numbers, top, average or meaning."
    )
    top_k: int = Field(10, ge=1, le=100)
    model: ModelName = None


class SensesRequest(ApiRequest):
    """Three or more sentences, each with the word in [brackets]."""

    model_config = _example(
        sentences=["cash in the [bank]", "the [bank] lent money", "the [bank] of the river"], num_senses=2
    )
    sentences: list[str] = Field(min_length=3, max_length=MAX_MAPPED)
    num_senses: int | None = Field(None, ge=1, le=8, description="The number found by clustering if omitted.")
    layers: list[int | str] | None = Field(
        None, max_length=16, description="Layers to map by; by default every one, and meaning last."
    )
    model: ModelName = None


class TaskRequest(ApiRequest):
    """Inputs of a task: texts, pairs of texts, texts with <e1> and <e2>, (question, passage), or senses."""

    model_config = _example(items=["I went to New York"])
    items: list[Any] = Field(min_length=1)


class ErrorResponse(TypedDict):
    """The shape of every error: {"code", "message", "field"}; the field is null if none is at fault."""

    error: dict[str, str | None]


class WordOffsets(TypedDict):
    """A word and its character offsets in the text; null where words were sent."""

    text: str
    start: int | None
    end: int | None


class EmbeddedSentence(TypedDict):
    """The words of a sentence and their vectors or those of its spans: nested lists or base64, of this shape."""

    words: list[WordOffsets]
    shape: list[int]
    vectors: Vectors


class EmbedResponse(TypedDict):
    """Word vectors."""

    model: str
    sentences: list[EmbeddedSentence]


class SimilarityResponse(TypedDict):
    """The cosine of two words by the chosen layers, and in each layer; layer 0 sees no sentence."""

    model: str
    cosine: float
    cosine_by_layer: list[float]
    words_a: list[str]
    words_b: list[str]


class SubstitutesResponse(TypedDict):
    """Words that fit in the place of one, best first, with the log of their share among the words considered."""

    model: str
    words: list[str]
    index: int
    substitutes: list[Substitute]


class ScoredSentence(TypedDict):
    """Natural log probabilities: one per word in each direction, and of both sentence boundaries."""

    words: list[str]
    perplexity: float | None
    left_to_right: Numbers
    right_to_left: Numbers
    end: float
    begin: float
    is_unknown: Flags


class ScoreResponse(TypedDict):
    """How well the language model predicts each sentence."""

    model: str
    sentences: list[ScoredSentence]


class TaskEntry(TypedDict):
    """A served task; `source` is what `elmo.tasks.load` opens elsewhere, null for a folder of the server."""

    name: str
    source: str | None
    family: str
    labels: list[str]
