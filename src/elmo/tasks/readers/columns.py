"""Which column of a table has which role: as the user says, else by its usual names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo.errors import InputError
from elmo.tasks.settings import TARGETS

if TYPE_CHECKING:
    from elmo.tasks.readers.tables import Table

# The names of columns in public data sets, in lower case.
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
_SENTENCES = (
    "sentence #", "sentence_id", "sent_id", "sentence_no", "sentence_num", "sentence_number", "sentence_idx",
)  # fmt: skip


@dataclass(frozen=True)
class Role:
    """A role, the names that its column usually has, and whether a table may lack it."""

    name: str
    usual_names: tuple[str, ...]
    optional: bool = False


ROLES: dict[str, tuple[Role, ...]] = {
    "tagging": (
        Role("sentence", _SENTENCES, optional=True),  # of a table with one word per row
        Role("word", ("words", "tokens", "token", "word", "form", "text", "sentence")),
        Role("tag", ("tags", "labels", "ner_tags", "pos_tags", "upos", "ner", "pos", "tag", "label", "chunk_tags")),
    ),
    "classification": (Role("text", _TEXTS), Role("label", _LABELS)),
    "pairs": (Role("first", _FIRSTS), Role("second", _SECONDS), Role("label", _LABELS)),
    "relations": (Role("text", _TEXTS), Role("label", ("relation", *_LABELS))),
    "question_answering": (
        Role("question", ("question", "query")),
        Role("passage", ("context", "passage", "paragraph", "document", "text")),
        Role("answer", ("answers", "answer", "answer_text", "span")),
        Role("start", ("answer_start", "start"), optional=True),
    ),
}


def list_names(family: str, named: Mapping[str, str]) -> frozenset[str]:
    """Return the names, in lower case, by which the first row of a table is known to be its header."""
    usual_names = (name for role in ROLES[family] for name in role.usual_names)
    return frozenset(("id", "idx", "pair_id", *_SCORES, *usual_names, *(name.lower() for name in named.values())))


def find_columns(
    table: "Table", family: str, named: Mapping[str, str], *, labelled: bool, prefers_scores: bool = False
) -> dict[str, str]:
    """Return the column of each role; a table that is not `labelled` may lack that of the target.

    With `prefers_scores`, the target of a pair is a number if the table has both.
    """
    roles = {role.name: role for role in ROLES[family]}
    if unknown := [name for name in named if name not in roles]:
        raise InputError(f"--column {unknown[0]}=… is not a role; {family} has {', '.join(roles)}.")
    if len(set(named.values())) < len(named):
        raise InputError(f"--column: {', '.join(named)} cannot all be read from {', '.join(named.values())}.")
    target = TARGETS[family]
    by_lower_name = {name.lower().strip(): name for name in reversed(table.names)}
    columns = {}
    for role_name, name in named.items():
        column = _find_named(table, name, by_lower_name)
        if column is None and (labelled or role_name != target):
            raise InputError(
                f"{table.name} has no column {name!r} for the {role_name}; it has {', '.join(table.names)}."
            )
        columns[role_name] = column or name
    for role in roles.values():
        usual_names = _SCORES if prefers_scores and role.name == "label" else role.usual_names
        matches = [by_lower_name[name] for name in usual_names if name in by_lower_name]
        match = next((column for column in matches if column not in columns.values()), None)
        if role.name not in columns and match is not None:
            columns[role.name] = match
        if role.name not in columns and not role.optional and (labelled or role.name != target):
            row = ", ".join(f"{name}={value!r:.30}" for name, value in table.first_rows[0].fields.items())
            raise InputError(
                f"{table.name}: no column has a usual name of the {role.name}; its first row is {row}. Name the "
                f"column with {_flag_of(role.name, target)}."
            )
    return columns


def _flag_of(role: str, target: str) -> str:
    if role == target:
        return "--label-column NAME"
    return "--text-column NAME" if role in ("text", "word") else f"--column {role}=NAME"


def _find_named(table: "Table", name: str, by_lower_name: Mapping[str, str]) -> str | None:
    """Return the column that a user means: by its name, its number among cells, or its path in nested JSON."""
    if name in table.names or name.lower() in by_lower_name:
        return name if name in table.names else by_lower_name[name.lower()]
    if not table.is_json and name.isdecimal() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    return name if any(get_field(row.fields, name) is not None for row in table.first_rows) else None


def get_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field, or None; `outer.inner` is a field of nested JSON objects."""
    if name in fields:
        return fields[name]
    outer, dot, inner = name.partition(".")
    nested = fields.get(outer) if dot else None
    return get_field(nested, inner) if isinstance(nested, dict) else None
