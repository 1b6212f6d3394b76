"""What requests and answers look like: checked on the way in, described in the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

Text = str | list[str]
LARGEST_WEIGHT = 1e6


def _fault(message: str) -> PydanticCustomError:
    # Braces would be read as places for values.
    return PydanticCustomError("elmo", "{message}", {"message": message})


def _check_input(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise _fault("input must be a string or a list of at least one string.")
    for number, text in enumerate(texts):
        if isinstance(text, int | list):
            raise _fault(
                f"input has {_kind(text)} at {number}: ids of tokens belong to another model's vocabulary; send "
                "the text itself."
            )
        if not isinstance(text, str):
            raise _fault(f"input has {_kind(text)} at {number}; every entry must be a string.")
    return texts


def _check_sentence(value: Any) -> Text:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise _fault(f"A sentence must be a string or a list of words, which are strings, not {_kind(value)}.")


def _check_sentences(value: Any) -> list[Text]:
    sentences = [value] if isinstance(value, str) else value
    if not isinstance(sentences, list) or not sentences:
        raise _fault("sentences must be a string or a list of at least one sentence.")
    return [_check_sentence(sentence) for sentence in sentences]


def _check_layers(value: Any) -> str | int | tuple[float, ...]:
    if value in ("average", "top", "all", "concat", "meaning") or (
        isinstance(value, int) and not isinstance(value, bool)
    ):
        return value  # type: ignore[no-any-return]
    if isinstance(value, list) and all(type(weight) in (int, float) for weight in value):
        if not all(abs(weight) <= LARGEST_WEIGHT for weight in value):
            raise _fault(f"layers has a weight beyond {LARGEST_WEIGHT:g}; give smaller ones.")
        return tuple(map(float, value))
    raise _fault(
        "layers must be average, top, all, concat, meaning, the number of a layer, or one weight a layer."
    )


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), "something else")


Sentence = Annotated[Text, PlainValidator(_check_sentence, json_schema_input_type=Text)]
Sentences = Annotated[
    list[Text],
    PlainValidator(_check_sentences, json_schema_input_type=str | Annotated[list[Text], Field(min_length=1)]),
]
LayerChoice = Annotated[
    str | int | tuple[float, ...],
    PlainValidator(
        _check_layers,
        json_schema_input_type=Literal["average", "top", "all", "concat", "meaning"] | int | list[float],
    ),
]
ModelName = Annotated[str | None, Field(description="One of GET /models; without it, the first.")]
Encoding = Annotated[
    Literal["float", "base64"],
    Field(description="Lists of numbers, or the bytes of little-endian float32 in base64."),
]
Index = Annotated[
    int | None,
    Field(ge=-(2**31), lt=2**31, description="Which word is meant, from 0; without it, the one in [brackets]."),
]
OnSpaces = Annotated[bool, Field(description="Take what stands between spaces as the words.")]


class Request(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class EmbeddingsRequest(Request):
    """As OpenAI's: one vector per text, as `elmo encode` makes it."""

    input: Annotated[
        list[str],
        PlainValidator(_check_input, json_schema_input_type=str | Annotated[list[str], Field(min_length=1)]),
    ]
    model: ModelName = None
    encoding_format: Encoding = "float"
    dimensions: Annotated[int | None, Field(description="Only the size the model has: vectors are whole.")] = None
    user: Annotated[str | None, Field(description="Taken for OpenAI's clients, and not used.")] = None


class EmbedRequest(Request):
    """Word vectors of sentences, each a string or a list of words."""

    sentences: Sentences
    model: ModelName = None
    layers: LayerChoice = "average"
    split_on_spaces: OnSpaces = False
    encoding_format: Encoding = "float"


class SimilarityRequest(Request):
    """A word of one sentence and a word of another, marked with [brackets] or named by index."""

    sentence_a: Sentence
    sentence_b: Sentence
    index_a: Index = None
    index_b: Index = None
    model: ModelName = None
    layers: Annotated[
        LayerChoice | None,
        Field(description="Without it, meaning, or average for a model without a context layer."),
    ] = None


class SubstitutesRequest(Request):
    """A sentence with one word that others might stand for."""

    sentence: Sentence
    index: Index = None
    top_k: Annotated[int, Field(ge=1, le=1000)] = 10
    punctuation: Annotated[bool, Field(description="Offer punctuation too.")] = False
    same_word: Annotated[bool, Field(description="Offer the word itself too.")] = False
    model: ModelName = None


class ScoreRequest(Request):
    """Sentences whose words the language model is to foresee."""

    sentences: Sentences
    model: ModelName = None
    split_on_spaces: OnSpaces = False


class NeighborsRequest(Request):
    """A sentence with one word whose like is looked for in the index."""

    sentence: Sentence
    index: Index = None
    words: Literal["any", "same", "other"] = "any"
    layers: Annotated[
        list[int | str] | None,
        Field(max_length=16, description="Numbers, top, average or meaning; those of the index."),
    ] = None
    top_k: Annotated[int, Field(ge=1, le=100)] = 10
    model: ModelName = None


class TaskRequest(Request):
    """What a task takes: texts; pairs of texts; texts with <e1> and <e2>; (question, passage); senses."""

    items: Annotated[list[Any], Field(min_length=1)]
