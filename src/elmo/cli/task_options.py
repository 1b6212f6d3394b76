"""Options of `elmo task`, derived from the settings of tasks that declare them."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import typer

from elmo.errors import InputError
from elmo.tasks.settings import DEFAULTS

GIGABYTE = 2**30
FunctionT = TypeVar("FunctionT", bound=Callable[..., None])


def with_options(*classes: type, only: tuple[str, ...] = ()) -> Callable[[FunctionT], FunctionT]:
    """Add the options that dataclasses declare to a command, which takes them as `**given`.

    They are named by the path of their field, as in `elmo__where`, and None unless the user gave them.
    """

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        derived = [each for cls in classes for each in _derive(cls, "", only)]
        function.__signature__ = signature.replace(parameters=[*own, *derived])  # type: ignore[attr-defined]
        return function

    return decorate


def _derive(cls: type, path: str, only: tuple[str, ...]) -> Iterator[inspect.Parameter]:
    for field in dataclasses.fields(cls):
        name = f"{path}{field.name}"
        if dataclasses.is_dataclass(field.type):
            yield from _derive(field.type, f"{name}__", only)  # type: ignore[arg-type]
        elif "help" in field.metadata and (not only or field.name in only):
            flag = field.metadata["flag"] or "--" + field.name.replace("_", "-")
            declared = typer.Option(
                f"{flag}/--no-{flag[2:]}" if field.type == bool | None else flag,
                metavar=field.metadata["metavar"],
                help=field.metadata["help"],
                show_default=_describe_default(field, name.replace("__", ".")),
            )
            kind: Any = Annotated[_option_type(field) | None, declared]
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _option_type(field: Any) -> Any:
    if field.name == "cache_bytes":
        return float  # in gigabytes
    if field.default_factory is dict:
        return list[str]
    if field.type == bool | None:
        return bool
    return type(field.default) if isinstance(field.default, int) else str


def _describe_default(field: Any, name: str) -> str | bool:
    if any(name in changes for changes in DEFAULTS.values()):
        return "depends on the family"
    if field.name == "cache_bytes":
        return f"{field.default // GIGABYTE}"
    if isinstance(field.default, tuple):
        return ",".join(field.default)
    return str(field.default) if isinstance(field.default, str | int) and field.default is not False else False


def read_pairs(given: list[str] | None, option: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Return what NAME=VALUE arguments say."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not (value.strip() or may_be_empty):
            raise InputError(f"{option} {item!r} is not NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found
