"""Assign the columns of a table to roles: as the user specifies, or else by their usual names."""

from typing import TYPE_CHECKING

from elmo.errors import InputError
from elmo.tasks.settings import TARGETS, ReadSettings

if TYPE_CHECKING:
    from elmo.tasks.readers.tables import Table

# Column names in public data sets, in lower case.
_LABELS = (
    "label", "labels", "gold_label", "class", "category", "target", "sentiment", "topic", "intent", "emotion",
    "polarity", "stars", "rating", "entailment_judgment", "judgment", "relation", "is_duplicate", "y", "answer",
    "score", "gold", "tag", "type", "similarity", "relatedness_score",
)  # fmt: skip
_SCORES = (
    "score", "similarity", "similarity_score", "relatedness_score", "relatedness", "label", "gold", "target",
)  # fmt: skip
_TEXTS = (
    "text", "sentence", "review", "content", "body", "document", "utterance", "comment", "tweet", "message",
    "query", "question", "description", "headline", "title", "words", "tokens",
)  # fmt: skip
_FIRSTS = (
    "premise", "sentence1", "sentence_a", "sentencea", "text_a", "text1", "question1", "first", "s1", "a", "left",
    "query", "question", "text",
)  # fmt: skip
_SECONDS = (
    "hypothesis", "sentence2", "sentence_b", "sentenceb", "text_b", "text2", "question2", "second", "s2", "b",
    "right", "document", "sentence",
)  # fmt: skip
# The roles of each family, and the usual names of their columns.
ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "tagging": {
        "word": ("words", "tokens", "token", "word", "form", "text", "sentence"),
        "tag": ("tags", "labels", "ner_tags", "pos_tags", "upos", "ner", "pos", "tag", "label", "chunk_tags"),
    },
    "classification": {"text": _TEXTS, "label": _LABELS},
    "pairs": {"first": _FIRSTS, "second": _SECONDS, "label": _LABELS},
    "relations": {"text": _TEXTS, "label": ("relation", *_LABELS)},
    "question_answering": {
        "question": ("question", "query"),
        "passage": ("context", "passage", "paragraph", "document", "text"),
        "answer": ("answers", "answer", "answer_text", "span"),
        "start": ("answer_start", "start"),
    },
}
_OPTIONAL = "start"


def header_names(family: str, settings: ReadSettings) -> frozenset[str]:
    """Return the names, in lower case, that identify the first row of a table as its header."""
    usual_names = (name for names in ROLES[family].values() for name in names)
    return frozenset(("id", "idx", "pair_id", *_SCORES, *usual_names, *map(str.lower, settings.columns.values())))


def find_columns(table: "Table", family: str, settings: ReadSettings, *, labelled: bool) -> dict[str, str]:
    """Return the column of each role; a table that is not `labelled` may lack the target column."""
    roles, target = ROLES[family], TARGETS[family]
    columns: dict[str, str] = {}
    for role, name in settings.columns.items():
        if role not in roles:
            raise InputError(f"--column {role}=… is not a role; {family} has {', '.join(roles)}.")
        columns[role] = table.find_column(name) or name
    if len(set(columns.values())) < len(columns):
        raise InputError(f"--column: {', '.join(columns)} cannot all be read from {', '.join(columns.values())}.")
    for role, usual_names in roles.items():
        names = _SCORES if role == "label" and settings.pair_target == "score" else usual_names
        if role not in columns:
            matches = (column for name in names if (column := table.find_column(name)) is not None)
            if (match := next((column for column in matches if column not in columns.values()), None)) is not None:
                columns[role] = match
        is_needed = role in settings.columns or role != _OPTIONAL
        if is_needed and columns.get(role) not in table.names and (labelled or role != target):
            requested = settings.columns.get(role)
            fault = ": no column has a usual name" if requested is None else f" has no column {requested!r}"
            row = ", ".join(f"{name}={value!r:.30}" for name, value in table.first_rows[0].fields.items())
            flags = {"text": "--text-column NAME", "word": "--text-column NAME", target: "--label-column NAME"}
            raise InputError(
                f"{table.name}{fault} for the {role}; its first row is {row}. Name the column with "
                f"{flags.get(role, f'--column {role}=NAME')}."
            )
    return columns
