"""A plain mapping, read from JSON or TOML -> a frozen dataclass, or one ConfigError that lists every fault."""

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmo.errors import ConfigError

DataclassT = TypeVar("DataclassT")


def parse(cls: type[DataclassT], values: Mapping[str, Any], what: str) -> DataclassT:
    """Make a dataclass of a mapping; `what` begins the error. A part with a method `faults` is asked for them."""
    found: list[str] = []
    part = _parse_dataclass(cls, values, "", found)
    if found or part is None:
        verb = "are" if what.startswith(("The settings", "The training settings")) else "is"
        raise ConfigError(f"{what} {verb} not valid: " + "; ".join(found) + ".")
    return part


def list_not_positive(part: object, *names: str) -> list[str]:
    """Give a phrase for each named number of a dataclass that is neither None nor above 0."""
    values = {name: getattr(part, name) for name in names}
    return [
        f"{name} is {value}; it must be above 0"
        for name, value in values.items()
        if value is not None and not value > 0
    ]


def list_too_large(part: object, **limits: int) -> list[str]:
    """Return a phrase for each named number of a dataclass that is above its limit."""
    values = {name: getattr(part, name) for name in limits}
    return [
        f"{name} is {_shorten(value)}; it must be at most {limits[name]}"
        for name, value in values.items()
        if value is not None and value > limits[name]
    ]


def _shorten(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else f"{float(value):.3g}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _parse_dataclass(cls: type[DataclassT], values: Any, where: str, found: list[str]) -> DataclassT | None:
    if not isinstance(values, Mapping):
        found.append(f"{where or 'the configuration'} is {values!r}; an object was expected")
        return None
    hints = get_type_hints(cls)
    arguments: dict[str, Any] = {}
    num_faults = len(found)
    prefix = f"{where}." if where else ""
    for name, value in values.items():
        if name not in hints:
            near = difflib.get_close_matches(str(name), hints, n=1)
            advice = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(hints)}"
            found.append(f"unknown key '{prefix}{name}' ({advice})")
        else:
            arguments[name] = _parse_value(hints[name], value, prefix + name, found)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        optional = field.default is not dataclasses.MISSING
        if field.name not in values and not optional and field.default_factory is dataclasses.MISSING:
            found.append(f"'{prefix}{field.name}' is missing")
    if len(found) > num_faults:
        return None
    part = cls(**arguments)
    found += [f"{prefix}{fault}" for fault in (part.faults() if hasattr(part, "faults") else [])]
    return part


def _parse_kind(classes: list[type[Any]], value: Any, where: str, found: list[str]) -> Any:
    """Read one of several dataclasses, told apart by their field `kind`; without it, the first one."""
    by_kind: dict[Any, type[Any]] = {cls.kind: cls for cls in classes}
    default = next(iter(by_kind))
    kind = value.get("kind", default) if isinstance(value, Mapping) else default
    if kind not in list(by_kind):  # a list, for what was read may have no hash
        found.append(f"'{where}.kind' is {kind!r}; it must be one of {', '.join(map(repr, by_kind))}")
        return None
    if isinstance(value, Mapping):
        own = get_type_hints(by_kind[kind])
        foreign = {
            name: other
            for other, cls in by_kind.items()
            for name in value
            if name not in own and name in get_type_hints(cls)
        }
        for name, other in foreign.items():
            found.append(f"'{where}.{name}' is a setting of the kind {other!r}, but '{where}.kind' is {kind!r}")
        value = {name: item for name, item in value.items() if name not in foreign}
    return _parse_dataclass(by_kind[kind], value, where, found)


def _parse_value(hint: Any, value: Any, where: str, found: list[str]) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        kinds = [choice for choice in choices if choice is not type(None)]
        if len(kinds) > 1:
            return _parse_kind(kinds, value, where, found)
        return _parse_value(kinds[0], value, where, found)
    if dataclasses.is_dataclass(hint):
        return _parse_dataclass(hint, value, where, found)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list | tuple):
        inner = [choices[0]] * len(value) if choices[-1] is Ellipsis else list(choices)
        if len(inner) == len(value):
            return tuple(_parse_value(part, item, where, found) for part, item in zip(inner, value, strict=True))
    elif origin is Literal:
        if value in choices:
            return value
        found.append(f"'{where}' is {value!r}; it must be one of {', '.join(map(repr, choices))}")
        return None
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
        found.append(f"'{where}' is {value!r}; a finite number was expected")
        return None
    elif hint in (int, str, bool) and type(value) is hint:
        return value
    if origin is tuple:
        expected = "a list" if choices[-1] is Ellipsis else f"a list of {len(choices)}"
    else:
        expected = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[hint]
    found.append(f"'{where}' is {value!r}; {expected} was expected")
    return None
