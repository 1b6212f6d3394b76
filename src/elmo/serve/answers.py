"""What answers look like, for the OpenAPI document; the routes make them as plain values."""

from typing import Any, Literal

from pydantic import BaseModel

Vectors = str | list[Any]


class ErrorText(BaseModel):
    """Why a request was refused."""

    code: str
    message: str
    field: str | None


class ErrorAnswer(BaseModel):
    """Every error has this shape."""

    error: ErrorText


class Embedding(BaseModel):
    """The vector of one text: numbers, or base64."""

    object: Literal["embedding"]
    index: int
    embedding: str | list[float]


class Usage(BaseModel):
    """How many words were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """As OpenAI's."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class PlacedWord(BaseModel):
    """A word and its characters in the text; null where words were sent."""

    text: str
    start: int | None
    end: int | None


class EmbeddedSentence(BaseModel):
    """The words of a sentence, the shape of their vectors, and these: nested lists, or base64."""

    words: list[PlacedWord]
    shape: list[int]
    vectors: Vectors


class EmbedAnswer(BaseModel):
    """Word vectors."""

    model: str
    sentences: list[EmbeddedSentence]


class SimilarityAnswer(BaseModel):
    """The cosine of two words by the layers asked for, and by each layer; layer 0 sees no sentence."""

    model: str
    cosine: float
    cosine_by_layer: list[float]
    words_a: list[str]
    words_b: list[str]


class SubstituteAnswer(BaseModel):
    """A word, and the log of its share among the words considered."""

    word: str
    log_probability: float


class SubstitutesAnswer(BaseModel):
    """Words that would fit, best first."""

    model: str
    words: list[str]
    index: int
    substitutes: list[SubstituteAnswer]


class ScoredSentence(BaseModel):
    """Natural log probabilities, one a word in each direction, and of both boundaries."""

    words: list[str]
    perplexity: float | None
    left_to_right: list[float]
    right_to_left: list[float]
    end: float
    begin: float
    is_unknown: list[bool]


class ScoreAnswer(BaseModel):
    """How well each sentence was foreseen."""

    model: str
    sentences: list[ScoredSentence]


class ServedIndex(BaseModel):
    """The index of a model."""

    num_occurrences: int
    layers: list[int | str]


class ModelEntry(BaseModel):
    """A model that is served."""

    name: str
    dim: int
    num_layers: int
    precision: str
    predicts_words: bool
    scripts: list[str]
    has_context: bool
    index: ServedIndex | None


class TaskEntry(BaseModel):
    """A task that is served."""

    name: str
    family: str
    labels: list[str]


class ModelsAnswer(BaseModel):
    """What is served, and how much of it at once."""

    models: list[ModelEntry]
    tasks: list[TaskEntry]
    limits: dict[str, float]
