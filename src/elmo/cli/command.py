"""A typed function -> a command: its parameters become options, and its docstring the help page.

A parameter is declared with `option` or `argument`, as its default or in `Annotated`. A parameter whose type is a
dataclass is a group: its fields become options, and the function receives an instance. `Annotated[dict[str, Any],
Settings]` receives the values that the user chose for those fields of a settings class that have a help text, by
their dotted names; a mapping after the class has texts that replace defaults on the help page, None for no option.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from elmo.cli.terminal import wrap
from elmo.language import translate

_METAVARS = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
_WIDTH, _INDENT = 79, 26


def option(spec: str, help: str, default: Any = ..., *, shown: str | bool = True, min: float | None = None) -> Any:
    """Declare an option; `spec` has its flags and the name of its value, as in "--output -o FILE".

    Without flags, the parameter's name is the flag. Without a default, the option is required, or its default
    follows Annotated[…]. `shown` replaces the default on the help page.
    """
    names = spec.split()
    flags = [name for name in names if name.startswith("-")]
    metavar = names[-1] if len(names) > len(flags) else None
    return typer.Option(default, *flags, metavar=metavar, help=help, show_default=shown, min=min)


def argument(spec: str, help: str, default: Any = ..., *, shown: bool = True) -> Any:
    """Declare an argument; `spec` is its name on the help page."""
    return typer.Argument(default, metavar=spec, help=help, show_default=shown)


def make_command(function: Callable[..., None], name: str) -> Any:
    """Return the command of a typed function."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name, cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})(_expand(function))
    return typer.main.get_command(app)


def _expand(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per option; groups are put together before the call."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Callable[[dict[str, Any]], Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        settings = _find_settings(parameter.annotation)
        if dataclasses.is_dataclass(parameter.annotation):
            fields = dataclasses.fields(parameter.annotation)
            groups[parameter.name] = functools.partial(_make_group, parameter.annotation)
            parameters += (_make_parameter(field.name, field.type, field.default) for field in fields)
        elif settings is not None:
            derived = dict(_derive_options(*settings))
            groups[parameter.name] = functools.partial(_take_chosen, tuple(derived))
            parameters += (_make_parameter(name.replace(".", "__"), kind, None) for name, kind in derived.items())
        else:
            parameters.append(_make_parameter(parameter.name, parameter.annotation, parameter.default))

    def call(**values: Any) -> None:
        grouped = {name: build(values) for name, build in groups.items()}
        function(**values, **grouped)

    call.__doc__ = function.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _make_group(group: Any, values: dict[str, Any]) -> Any:
    return group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})


def _take_chosen(names: Sequence[str], values: dict[str, Any]) -> dict[str, Any]:
    taken = {name: values.pop(name.replace(".", "__")) for name in names}
    return {name: value for name, value in taken.items() if value is not None}


def _make_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    _set_metavar(annotation, default)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _set_metavar(annotation: Any, default: Any) -> None:
    """Name the value of an option by its type if it has no name."""
    declared = default
    if get_origin(annotation) is Annotated:
        annotation, declared = get_args(annotation)[:2]
    if getattr(declared, "metavar", "") is None:
        kind = _strip(annotation)
        declared.metavar = "|".join(get_args(kind)) if get_origin(kind) is Literal else _METAVARS.get(kind)


def _strip(annotation: Any) -> Any:
    """Return the type of one value: X of `X | None`, `list[X]` and `list[X] | None`."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(kind for kind in get_args(annotation) if kind is not type(None))
    return get_args(annotation)[0] if get_origin(annotation) is list else annotation


def _find_settings(annotation: Any) -> Sequence[Any] | None:
    """Return the class whose fields a parameter collects, and the defaults to show; or None."""
    if get_origin(annotation) is not Annotated or get_origin(get_args(annotation)[0]) is not dict:
        return None
    return get_args(annotation)[1:]


def _derive_options(
    settings: type, shown: Mapping[str, str | None] = types.MappingProxyType({}), path: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the option of each field that has a help text, also in nested settings.

    A field states help, flag and metavar in its metadata.
    """
    for field in dataclasses.fields(settings):
        name, stated = f"{path}{field.name}", field.metadata
        if dataclasses.is_dataclass(field.type):
            yield from _derive_options(field.type, shown, f"{name}.")  # type: ignore[arg-type]
        elif "help" in stated and (default := shown.get(name, _describe_default(field.default))) is not None:
            flag = stated.get("flag") or "--" + field.name.replace("_", "-")
            names = f"{flag}/--no-{flag[2:]}" if field.type == bool | None else flag
            spec = f"{names} {stated.get('metavar') or ''}"
            yield name, Annotated[_derive_type(field) | None, option(spec, stated["help"], shown=default)]


def _derive_type(field: Any) -> Any:
    if field.default_factory is dict:
        return list[str]
    if field.type == bool | None:
        return bool
    return type(field.default) if isinstance(field.default, int | float) else str


def _describe_default(value: Any) -> str | bool:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value) if isinstance(value, str | int | float) and value is not False else False


class HelpPage:
    """Writes the help page of a command or of a group of commands."""

    def get_help(self, ctx: Any) -> str:
        """Return the page in the user's language."""
        return "\n".join(_write_page(self, ctx))


class _Command(HelpPage, TyperCommand):
    pass


def _write_page(command: Any, context: Any) -> Iterator[str]:
    yield from wrap(translate("Usage: ") + write_usage(command, context), _WIDTH)
    for paragraph in describe_command(command):
        yield ""
        yield from (f"  {line}" for line in (wrap(paragraph, _WIDTH - 2) if isinstance(paragraph, str) else paragraph))
    rows: dict[str, list[tuple[str, str]]] = {"Arguments:": [], "Options:": [], "Commands:": []}
    for parameter in command.get_params(context):
        rows[f"{parameter.param_type_name.capitalize()}s:"].append(describe_parameter(parameter))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        summary = next(iter(describe_command(command.get_command(context, name))))
        rows["Commands:"].append((name, str(summary)))
    for heading, described in rows.items():
        indent = _INDENT if heading != "Commands:" else 15
        if described:
            yield f"\n{translate(heading)}"
        for name, text in described:
            lines = list(wrap(text, _WIDTH - indent))
            is_short = len(name) < indent - 3 and lines  # the text begins on the line of the name
            yield f"  {name:<{indent - 2}}{lines.pop(0)}" if is_short else f"  {name}"
            yield from (f"{'':{indent}}{line}" for line in lines)


def describe_command(command: Any) -> Iterator[str | list[str]]:
    """Yield the paragraphs of a command's help; examples, which follow a \\b, are lists of lines."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph[:1] != "\b":
            yield translate(" ".join(paragraph.split()))
            continue
        lines = paragraph.splitlines()[1:]
        yield [line.replace(text, translate(text)) for line in lines if (text := line.strip())]


def write_usage(command: Any, context: Any) -> str:
    """Return the first line of a help page without the word Usage."""
    names = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = describe_parameter(parameter)[0]
            names.append((name if parameter.required else f"[{name}]") + ("..." if parameter.nargs != 1 else ""))
    rest = ["COMMAND", "[ARGS]..."] if hasattr(command, "list_commands") else []
    return " ".join([context.command_path, "[OPTIONS]", *names, *rest])


def describe_parameter(parameter: Any) -> tuple[str, str]:
    """Return the flags of an option or the name of an argument, and the help text with the default."""
    text, shown = translate(parameter.help or ""), parameter.show_default
    if parameter.param_type_name == "argument":
        return parameter.metavar or parameter.name, text
    flags = ", ".join(sorted(parameter.opts, key=len))
    if parameter.secondary_opts:
        flags += f" / {parameter.secondary_opts[0]}"
    elif not parameter.is_flag and parameter.metavar:
        flags += f" {parameter.metavar}"
    if parameter.required:
        return flags, f"{text} [{translate('required')}]"
    default = parameter.default if shown and not parameter.is_flag else None  # a value, which has no translation
    default = translate(shown) if isinstance(shown, str) else default
    return flags, text if default is None else f"{text} [{translate('default: ')}{default}]"
