"""Which column of a table has which role: as the user said, else by its name, else by its content."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo.errors import InputError
from elmo.files.rows import Record
from elmo.tasks.settings import TARGETS

if TYPE_CHECKING:
    from elmo.tasks.readers.tables import Table

_MOST_NAME_WORDS = 4
_NAME_LIKE = re.compile(r"[^\W\d][\w.:#/-]{0,39}")
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
_PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_a", "sentence_b"),
    ("sentencea", "sentenceb"), ("text_a", "text_b"), ("text1", "text2"), ("question1", "question2"),
    ("first", "second"), ("s1", "s2"), ("a", "b"), ("text", "hypothesis"), ("question", "sentence"),
    ("query", "document"), ("left", "right"),
)  # fmt: skip
_TAGS = ("tags", "labels", "ner_tags", "pos_tags", "upos", "ner", "pos", "tag", "label", "chunk_tags")
_SENTENCES = (
    "sentence #", "sentence_id", "sent_id", "sentence_no", "sentence_num", "sentence_number", "sentence_idx",
)  # fmt: skip
# A column whose name has such a word describes a text or label, as text_id does, and does not hold it.
_NEVER_MEANT = frozenset(
    ("id", "ids", "idx", "index", "no", "num", "number", "count", "length", "len", "date", "time", "url", "source")
)


@dataclass(frozen=True)
class Role:
    """A role, the column names it usually has, and whether a file may lack it."""

    name: str
    usual: tuple[str, ...] = ()
    needed: bool = True


ROLES: dict[str, tuple[Role, ...]] = {
    "tagging": (
        Role("sentence", _SENTENCES, needed=False),  # of a table with one word per row
        Role("word", ("words", "tokens", "token", "word", "form", "text", "sentence")),
        Role("tag", _TAGS),
    ),
    "classification": (Role("text", _TEXTS), Role("label", _LABELS)),
    "pairs": (Role("first"), Role("second"), Role("label", _LABELS)),
    "relations": (Role("text", _TEXTS), Role("label", ("relation", *_LABELS))),
    "question_answering": (
        Role("question", ("question", "query")),
        Role("passage", ("context", "passage", "paragraph", "document", "text")),
        Role("answer", ("answers", "answer", "answer_text", "span")),
        Role("start", ("answer_start", "start"), needed=False),
    ),
}
COLUMN_NAMES = frozenset(name for roles in ROLES.values() for role in roles for name in role.usual).union(
    _SCORES, ("id", "idx", "pair_id"), *_PAIRS
)


def is_header(first: list[str], later: list[list[str]]) -> bool:
    """Return whether a row names columns: usual names, or short single words above columns of text."""
    names = [cell.strip() for cell in first]
    if len(set(names)) != len(names) or any(len(name.split()) > _MOST_NAME_WORDS for name in names):
        return False
    columns = list(zip(*(row for row in later if len(row) == len(first)), strict=True))
    if any(name in map(str.strip, column) for name, column in zip(names, columns, strict=False)):
        return False
    if any(name.lower() in COLUMN_NAMES for name in names):
        return True
    return all(_NAME_LIKE.fullmatch(name.replace(" ", "_")) for name in names) and any(
        len(name.split()) == 1 and sum(len(cell.split()) for cell in column) > 2 * len(column)
        for name, column in zip(names, columns, strict=False)
    )


def find_columns(
    table: "Table", family: str, named: Mapping[str, str], *, labelled: bool, prefers_scores: bool = False
) -> dict[str, str]:
    """Return the column of each role; a file that is not `labelled` may lack that of the target.

    With `prefers_scores`, the target of a pair is a number if the table has both.
    """
    roles = {role.name: role for role in ROLES[family]}
    if unknown := [name for name in named if name not in roles]:
        raise InputError(f"--column {unknown[0]}=…: there is no such role; {family} has {', '.join(roles)}.")
    if len(set(named.values())) < len(named):
        raise InputError(f"--column: {', '.join(named)} cannot all be read from {', '.join(named.values())}.")
    lower = {name.lower().strip(): name for name in reversed(table.names)}
    columns = {}
    for role_name, name in named.items():
        actual = _find_name(table, name, lower)
        if actual is None and (labelled or role_name != TARGETS[family]):
            raise InputError(
                f"{table.name} has no column {name!r} for the {role_name}; it has {', '.join(table.names)}."
            )
        columns[role_name] = actual or name
    if family == "pairs" and not {"first", "second"} & columns.keys():
        pair = next((pair for pair in _PAIRS if lower.keys() >= set(pair)), ())
        columns |= {role: lower[name] for role, name in zip(("first", "second"), pair, strict=False)}
    for role in roles.values():
        usual = _SCORES if prefers_scores and role.name == "label" else role.usual
        if role.name not in columns and (match := _find_usual(usual, lower, columns.values())) is not None:
            columns[role.name] = match
    _find_by_content(table, family, columns, labelled=labelled)
    for role in roles.values():
        if role.name not in columns and role.needed and (labelled or role.name != TARGETS[family]):
            row = ", ".join(f"{name}={value!r:.30}" for name, value in table.first_rows[0].fields.items())
            raise InputError(
                f"{table.name}: no column was found for the {role.name}; its first row is {row}. Name the column "
                f"with {_flag_of(role.name, family)}."
            )
    return columns


def _flag_of(role: str, family: str) -> str:
    if role == TARGETS[family]:
        return "--label-column NAME"
    return "--text-column NAME" if role in ("text", "word") else f"--column {role}=NAME"


def get_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field, or None; `outer.inner` is a field of nested JSON objects."""
    if name in fields:
        return fields[name]
    outer, dot, inner = name.partition(".")
    nested = fields.get(outer) if dot else None
    return get_field(nested, inner) if isinstance(nested, dict) else None


def _find_name(table: "Table", name: str, lower: Mapping[str, str]) -> str | None:
    """Return the column that a user means: by its name, its number among cells, or its path in nested JSON."""
    if name in table.names or name.lower() in lower:
        return name if name in table.names else lower[name.lower()]
    if not table.is_json and name.isdecimal() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    is_nested = any(get_field(row.fields, name) is not None for row in table.first_rows)
    return name if is_nested else None


def _find_usual(usual: Sequence[str], lower: Mapping[str, str], taken: Collection[str]) -> str | None:
    """Return the column that has one of the names, or a name with one of them in it, as in review_text."""
    free = {name: actual for name, actual in lower.items() if actual not in taken}
    for name in usual:
        if name in free:
            return free[name]
    parts = {actual: re.findall(r"[^\W_]+", name) for name, actual in free.items()}
    fitting = {actual: words for actual, words in parts.items() if not _NEVER_MEANT.intersection(words)}
    return next((actual for name in usual for actual, words in fitting.items() if name in words), None)


def _find_by_content(table: "Table", family: str, columns: dict[str, str], *, labelled: bool) -> None:
    """Take the columns with the longest texts for texts, and that with the fewest distinct values for labels."""
    rows, free = table.first_rows, [name for name in table.names if name not in columns.values()]
    texts = {"classification": ["text"], "relations": ["text"], "pairs": ["first", "second"]}.get(family, [])
    texts = [role for role in texts if role not in columns]
    if family == "relations":
        chosen = [name for name in free if any("<e1>" in str(row.fields.get(name)) for row in rows)][:1]
    else:
        chosen = sorted(free, key=lambda name: -_mean_words(rows, name))[: len(texts)]
    columns |= zip(texts, sorted(chosen, key=table.names.index), strict=False)
    free = [name for name in free if name not in columns.values()]
    if labelled and TARGETS[family] == "label" and "label" not in columns and free:
        # More than one value and none empty; of equals, the last.
        varied = [name for name in free if _num_distinct(rows, name) > 1]
        whole = [name for name in varied if all(row.fields.get(name) not in (None, "") for row in rows)]
        columns["label"] = min(reversed(whole or varied or free), key=lambda name: _num_distinct(rows, name))


def _mean_words(rows: Sequence[Record], name: str) -> float:
    return sum(len(str(row.fields.get(name, "")).split()) for row in rows) / len(rows)


def _num_distinct(rows: Sequence[Record], name: str) -> int:
    return len({str(row.fields.get(name)) for row in rows})
