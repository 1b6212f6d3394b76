"""Build a command from a typed function: its parameters become options, and its docstring the help page.

A parameter is declared with `option` or `argument`, as its default or in `Annotated`. A parameter whose type is a
dataclass is a group: its fields become options, and the function receives an instance. `Annotated[dict[str, Any],
Settings]` adds an option for each field of a settings class that has a help text, and receives the given values by
dotted name; a mapping after the class replaces defaults shown on the help page, and None removes an option.
"""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import click
from click.core import ParameterSource, augment_usage_errors

from elmo.cli.terminal import wrap
from elmo.language import translate

CONTEXT_SETTINGS: Any = {"help_option_names": ["-h", "--help"]}
_METAVARS = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
_WIDTH, _INDENT = 79, 26


@dataclasses.dataclass(frozen=True)
class _Declaration:
    """The declaration of a parameter, apart from its name and type."""

    flags: list[str] | None  # None for an argument
    metavar: str | None
    help: str
    default: Any
    shown: str | bool = True
    min: float | None = None


def option(spec: str, help: str, default: Any = ..., *, shown: str | bool = True, min: float | None = None) -> Any:
    """Declare an option; `spec` has its flags and the name of its value, as in "--output -o FILE".

    Without flags, the parameter's name is the flag. Without a default, the option is required, or its default
    follows Annotated[…]. `shown` replaces the default on the help page.
    """
    names = spec.split()
    flags = [name for name in names if name.startswith("-")]
    return _Declaration(flags, names[-1] if len(names) > len(flags) else None, help, default, shown, min)


def argument(spec: str, help: str, default: Any = ...) -> Any:
    """Declare an argument; `spec` is its name on the help page."""
    return _Declaration(None, spec, help, default)


def make_command(function: Callable[..., None], name: str) -> click.Command:
    """Return the command of a typed function."""
    parameters: list[click.Parameter] = []
    signature = inspect.signature(function).parameters
    readers = {
        name: _declare(name, parameter.annotation, parameter.default, parameters)
        for name, parameter in signature.items()
    }

    def call(**values: Any) -> None:
        values = {name: (list(value) or None) if isinstance(value, tuple) else value for name, value in values.items()}
        function(**{name: read(values) for name, read in readers.items()})

    return _Command(name, params=parameters, callback=call, help=function.__doc__, context_settings=CONTEXT_SETTINGS)


def _declare(name: str, annotation: Any, default: Any, parameters: list[click.Parameter]) -> Callable[[Any], Any]:
    """Add the options of a parameter or a field; return the function that reads its value from all values."""
    group, *settings = get_args(annotation) or [annotation]
    if dataclasses.is_dataclass(group):
        fields = dataclasses.fields(group)
        readers = {field.name: _declare(field.name, field.type, field.default, parameters) for field in fields}
        return lambda values: group(**{name: read(values) for name, read in readers.items()})  # type: ignore[operator]
    if get_origin(group) is dict and settings:
        options = {parameter.name: parameter for parameter in _derive_options(*settings)}
        parameters += options.values()
        return lambda values: {name: values[name] for name in options if values[name] is not None}
    parameters.append(_make_parameter(name, annotation, default))
    return lambda values: values[name]


def _make_parameter(name: str, annotation: Any, default: Any) -> click.Parameter:
    """Return the option or argument of a parameter; the name may have dots."""
    declared = default
    if get_origin(annotation) is Annotated:
        annotation, declared = get_args(annotation)
    if default in (declared, inspect.Parameter.empty, dataclasses.MISSING):
        default = declared.default
    flag = f"--{name.rpartition('.')[2].replace('_', '-')}"
    flags = declared.flags or [f"{flag}/--no-{flag[2:]}" if annotation == bool | None else flag]
    is_list = False
    while get_origin(annotation) in (Union, types.UnionType, list):  # X of `X | None`, `list[X]` and `list[X] | None`
        is_list = is_list or get_origin(annotation) is list
        annotation = get_args(annotation)[0]
    choices = get_args(annotation)  # of a Literal
    value_type = click.Choice(choices) if choices else annotation
    if declared.min is not None:
        value_type = (click.IntRange if annotation is int else click.FloatRange)(min=declared.min)
    metavar = declared.metavar or "|".join(choices) or _METAVARS.get(annotation)
    settings: dict[str, Any] = {"type": value_type, "metavar": metavar}
    settings |= {"required": True} if default is ... else {"default": default}
    parameter: click.Parameter
    identifier = name.replace(".", "_")
    if declared.flags is None:
        parameter = click.Argument([identifier], nargs=-1 if is_list else 1, **settings)
        parameter.help = declared.help  # an argument of click has no help before version 8.5
    else:
        settings |= {"is_flag": True, "type": None} if annotation is bool else {"multiple": is_list}
        parameter = click.Option([identifier, *flags], help=declared.help, show_default=declared.shown, **settings)
    parameter.name = name
    return parameter


def list_given() -> list[str]:
    """Return the flags of the options and the names of the arguments that the user gave to this command."""
    context = click.get_current_context()
    return [
        parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.metavar)
        for parameter in context.command.params
        if parameter.name and context.get_parameter_source(parameter.name) == ParameterSource.COMMANDLINE
    ]


def _derive_options(
    settings: type, shown: Mapping[str, str | None] | None = None, path: str = ""
) -> Iterator[click.Parameter]:
    """Yield an option for each field that has a help text, also in nested settings, under its dotted name."""
    for field in dataclasses.fields(settings):
        name, default = f"{path}{field.name}", field.default
        if dataclasses.is_dataclass(field.type):
            yield from _derive_options(field.type, shown, f"{name}.")  # type: ignore[arg-type]
        elif "help" in field.metadata and (text := (shown or {}).get(name, _describe_default(default))) is not None:
            annotation: Any = field.type
            if default == () or field.default_factory is dict:
                annotation = list[str]
            elif isinstance(default, tuple):
                annotation = str  # comma-separated values, which replace the default
            declared = option(field.metadata["spec"], field.metadata["help"], None, shown=text)
            yield _make_parameter(name, annotation, declared)


def _describe_default(value: Any) -> str | bool:
    if isinstance(value, tuple):
        return ",".join(value) or False
    return str(value) if isinstance(value, str | int | float) and value is not False else False


class HelpPage:
    """Writes the help page of a command or of a group of commands, in the user's language."""

    def get_help(self, ctx: Any) -> str:
        """Return the page."""
        return "\n".join(_write_page(self, ctx))


class _Command(HelpPage, click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with augment_usage_errors(ctx):  # so that a missing value is reported with the name of the command
            return super().parse_args(ctx, args)


def _write_page(command: Any, context: Any) -> Iterator[str]:
    yield from wrap(translate("Usage: ") + write_usage(command, context), _WIDTH)
    for paragraph in describe_command(command):
        yield ""
        yield from (f"  {line}" for line in (wrap(paragraph, _WIDTH - 2) if isinstance(paragraph, str) else paragraph))
    rows: dict[str, list[tuple[str, str]]] = {"Arguments:": [], "Options:": [], "Commands:": []}
    for parameter in command.get_params(context):
        rows[f"{parameter.param_type_name.capitalize()}s:"].append(describe_parameter(parameter))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        rows["Commands:"].append((name, str(next(describe_command(command.get_command(context, name))))))
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
        if paragraph[:1] == "\b":
            lines = paragraph.splitlines()[1:]
            yield [line.replace(text, translate(text)) for line in lines if (text := line.strip())]
        else:
            yield translate(" ".join(paragraph.split()))


def write_usage(command: Any, context: Any) -> str:
    """Return the usage line of a command, without the word Usage."""
    names = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = parameter.metavar if parameter.required else f"[{parameter.metavar}]"
            names.append(name + ("..." if parameter.nargs != 1 else ""))
    rest = ["COMMAND", "[ARGS]..."] if hasattr(command, "list_commands") else []
    return " ".join([context.command_path, "[OPTIONS]", *names, *rest])


def describe_parameter(parameter: Any) -> tuple[str, str]:
    """Return the flags of an option or the name of an argument, and the help text with the default."""
    text = translate(parameter.help or "")
    if parameter.param_type_name == "argument":
        return parameter.metavar, text
    flags = ", ".join(sorted(parameter.opts, key=len))
    if parameter.secondary_opts:
        flags += f" / {parameter.secondary_opts[0]}"
    elif not parameter.is_flag and parameter.metavar:
        flags += f" {parameter.metavar}"
    if parameter.required:
        return flags, f"{text} [{translate('required')}]"
    shown = parameter.show_default
    default = parameter.default if shown and not parameter.is_flag else None
    if isinstance(shown, str):
        is_value = shown in getattr(parameter.type, "choices", ())  # not translated
        default = shown if is_value else translate(shown)
    return flags, text if default is None else f"{text} [{translate('default: ')}{default}]"
