"""Which column of a table has which role: as the user said, else by usual names, else by what stands in them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.readers import usual_names as names
from elmo.tasks.readers.tables import Record, Table, get_field


@dataclass(frozen=True)
class Role:
    """A role, the names it usually has, and whether a file may lack it."""

    name: str
    usual: tuple[str, ...]
    needed: bool = True


ROLES: dict[str, tuple[Role, ...]] = {
    "tagging": (
        Role("sentence", names.SENTENCES, needed=False),  # of a table with one word a row
        Role("word", names.WORDS),
        Role("tag", names.TAGS),
    ),
    "classification": (Role("text", names.TEXTS), Role("label", names.LABELS)),
    "pairs": (Role("first", ()), Role("second", ()), Role("label", names.LABELS)),
    "relations": (Role("text", names.TEXTS), Role("label", ("relation", *names.LABELS))),
    "spans": (
        Role("question", names.QUESTIONS),
        Role("passage", names.PASSAGES),
        Role("answer", names.ANSWERS),
        Role("start", names.STARTS, needed=False),
    ),
}
TARGETS = {
    "tagging": "tag", "classification": "label", "pairs": "label", "relations": "label", "spans": "answer",
}  # fmt: skip


def find_columns(
    table: Table, file: str, family: str, given: Mapping[str, str], *, labelled: bool, prefers_scores: bool = False
) -> dict[str, str]:
    """Give the column of each role; a file that is not `labelled` may lack that of the target.

    With `prefers_scores`, the target of a pair is a number if the table has both.
    """
    roles = ROLES[family]
    known_roles = [role.name for role in roles]
    if unknown := [name for name in given if name not in known_roles]:
        known = ", ".join(known_roles)
        raise InputError(f"--column {unknown[0]}=…: there is no such role; {family} has {known}.")
    if len(set(given.values())) < len(given):
        raise InputError(f"--column: {', '.join(given)} cannot all be read from {', '.join(given.values())}.")
    found: dict[str, str] = {}
    lower = {name.lower().strip(): name for name in reversed(table.names)}
    for given_role, name in given.items():
        actual = _find_name(table, name, lower)
        if actual is not None:
            found[given_role] = actual
        elif labelled or given_role != TARGETS[family]:
            raise InputError(
                f"{file} has no column {name!r} for the {given_role}; it has {', '.join(table.names)}."
            )
        else:
            found[given_role] = name
    _find_pair(family, lower, found)
    for role in roles:
        usual = names.SCORES if prefers_scores and role.name == "label" else role.usual
        if role.name not in found and (match := _find_usual(usual, lower, found.values())) is not None:
            found[role.name] = match
    _find_by_content(table, family, found, labelled=labelled)
    for role in roles:
        is_needed = role.needed and (labelled or role.name != TARGETS[family])
        if role.name not in found and is_needed:
            raise InputError(
                f"{file}: no column was found for the {role.name}; it has {', '.join(table.names)}. Name it with "
                f"--column {role.name}=NAME."
            )
    return found


def _find_name(table: Table, name: str, lower: Mapping[str, str]) -> str | None:
    """Give the column that a user means: by its name, its number among cells, or its place in nested JSON."""
    if name in table.names or name.lower() in lower:
        return name if name in table.names else lower[name.lower()]
    if table.kind in ("csv", "tsv") and name.isdecimal() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    is_nested = any(get_field(row.fields, name) is not None for row in table.first_rows)
    return name if is_nested else None


def _find_usual(usual: Sequence[str], lower: Mapping[str, str], taken: Collection[str]) -> str | None:
    """Give the column that has one of the names, or a name with one of them in it, as in review_text."""
    free = {name: actual for name, actual in lower.items() if actual not in taken}
    for name in usual:
        if name in free:
            return free[name]
    parts = {actual: re.findall(r"[^\W_]+", name) for name, actual in free.items()}
    fitting = {actual: words for actual, words in parts.items() if not names.NEVER_MEANT.intersection(words)}
    return next((actual for name in usual for actual, words in fitting.items() if name in words), None)


def _find_pair(family: str, lower: Mapping[str, str], found: dict[str, str]) -> None:
    if family != "pairs" or "first" in found or "second" in found:
        return
    for first, second in names.PAIRS:
        if first in lower and second in lower:
            found.update(first=lower[first], second=lower[second])
            return


def _find_by_content(table: Table, family: str, found: dict[str, str], *, labelled: bool) -> None:
    free = [name for name in table.names if name not in found.values()]
    texts = {"classification": ["text"], "relations": ["text"], "pairs": ["first", "second"]}.get(family, [])
    texts = [role for role in texts if role not in found]
    if texts and family == "relations":
        marked = [name for name in free if any("<e1>" in str(row.fields.get(name)) for row in table.first_rows)]
        longest = marked[:1]
    else:
        longest = sorted(free, key=lambda name: -_mean_words(table.first_rows, name))[: len(texts)]
    for role, name in zip(texts, sorted(longest, key=table.names.index), strict=False):
        found[role] = name
    free = [name for name in free if name not in found.values()]
    if labelled and "label" in {role.name for role in ROLES[family]} and "label" not in found and free:
        # The column with the fewest different values, but more than one and none empty; of equals, the last.
        rows = table.first_rows
        varied = [name for name in free if _num_distinct(rows, name) > 1]
        whole = [name for name in varied if all(row.fields.get(name) not in (None, "") for row in rows)]
        found["label"] = min(reversed(whole or varied or free), key=lambda name: _num_distinct(rows, name))


def _mean_words(rows: Sequence[Record], name: str) -> float:
    return sum(len(str(row.fields.get(name, "")).split()) for row in rows) / len(rows)


def _num_distinct(rows: Sequence[Record], name: str) -> int:
    return len({str(row.fields.get(name)) for row in rows})
