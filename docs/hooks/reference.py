"""The code -> Markdown of the reference: every command with its options, every setting, every request.

Read when the site is built, so that nothing is copied by hand. `write(name)` is all that pages.py needs.
"""

import ast
import dataclasses
import functools
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, get_args


def write(name: str) -> str:
    """Return the generated part of that name; KeyError for an unknown one."""
    return PARTS[name]()


def write_commands(language: str = "en") -> str:
    """Describe every command of `elmo`: usage, examples, arguments and options."""
    from elmo.cli.app import app

    context = app.make_context("elmo", [], resilient_parsing=True)
    before = os.environ.get("ELMO_LANG", "")  # without a value it counts as not set
    os.environ["ELMO_LANG"] = language
    try:
        return "\n".join(_list_commands(app, context, "elmo"))
    finally:
        os.environ["ELMO_LANG"] = before


def _list_commands(group: Any, context: Any, path: str) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from _list_commands(command, inner, f"{path} {name}")
        else:
            yield from _describe_command(command, inner, f"{path} {name}")


def _describe_command(command: Any, context: Any, path: str) -> Iterator[str]:
    from elmo.cli.command import describe_command, describe_parameter, write_usage
    from elmo.language import translate

    yield f"## `{path}`\n"
    for paragraph in describe_command(command):
        if isinstance(paragraph, str):
            yield f"{_mark_code(paragraph)}\n"
        else:
            title, *lines = map(str.strip, paragraph)
            yield f"{title}\n\n```bash\n" + "\n".join(lines) + "\n```\n"
    yield f"```text\n{write_usage(command, context)}\n```\n"
    yield f"| {translate('Options:').strip(':：')} | |\n|---|---|"
    for parameter in command.params:
        flags, text = describe_parameter(parameter)
        yield f"| `{_escape(flags)}` | {_escape(_mark_code(text))} |"
    yield ""


def write_training_settings() -> str:
    """Describe the settings of `elmo train`, and the presets."""
    from elmo import config
    from elmo.pretrain import settings

    return "\n".join(
        [
            *_describe_class(settings.TrainSettings, ""),
            *_describe_class(settings.OptimizerSettings, "optimizer."),
            *_describe_class(settings.TeacherSettings, "teacher."),
            *_describe_class(config.ModelConfig, "model."),
            *_describe_class(config.CharacterConfig, "model.characters."),
            *_describe_class(config.WordConfig, "model.words."),
            *_describe_class(config.EncoderConfig, "model.encoder."),
            *_describe_class(config.TransformerConfig, "model.encoder."),
            *_describe_presets(settings.PRESETS, settings.TrainSettings()),
        ]
    )


def _describe_presets(presets: dict[str, Any], default: Any) -> Iterator[str]:
    yield "### Presets\n\nWhat each preset changes:\n\n| preset | settings |\n|---|---|"
    for name, preset in presets.items():
        changed = ", ".join(f"`{key}={value!r}`" for key, value in _list_changes(preset, default))
        yield f"| `{name}` | {_escape(changed) or 'the defaults above'} |"
    yield ""


def _list_changes(settings: Any, default: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(settings):
        value, usual = getattr(settings, field.name), getattr(default, field.name)
        if dataclasses.is_dataclass(value) and type(value) is type(usual):
            yield from _list_changes(value, usual, f"{prefix}{field.name}.")
        elif value != usual:
            yield f"{prefix}{field.name}", value


def write_task_settings() -> str:
    """Describe the settings of tasks, and what each family changes."""
    from elmo.tasks import settings

    lines = [
        *_describe_class(settings.WordSettings, "words."),
        *_describe_class(settings.ElmoSettings, "elmo."),
        *_describe_class(settings.NetworkSettings, "network."),
        *_describe_class(settings.FitSettings, "fit."),
        "### Defaults of the families\n\n| family | differs in |\n|---|---|",
    ]
    for family, changes in settings.DEFAULTS.items():
        lines.append(f"| `{family}` | {', '.join(f'`{name}={value!r}`' for name, value in changes.items())} |")
    options = [
        *_describe_class(settings.TaskOptions, ""),
        *_describe_class(settings.ReadSettings, "read."),
    ]
    return "\n".join([*lines, "", *options])


def write_corpus_settings() -> str:
    """Describe the settings of `elmo prepare`."""
    from elmo.corpus import settings

    return "\n".join([*_describe_class(settings.PrepareSettings, "", settings.TextSettings)])


def write_vector_settings() -> str:
    """Describe the settings of vector folders."""
    from elmo.vectors.settings import VectorSettings

    return "\n".join(_describe_class(VectorSettings, ""))


def write_server_settings() -> str:
    """Describe the settings of the server with their environment variables."""
    from elmo.serve.settings import PREFIX, Settings

    fields = {field.name: field for field in dataclasses.fields(Settings)}
    lines = ["| setting | variable | type | default | |", "|---|---|---|---|---|"]
    for name, kind, comment in _read_fields(Settings):
        text = _escape(_mark_code(fields[name].metadata.get("help", ""))) or comment
        default = _show(fields[name].default)
        lines.append(f"| `{name}` | `{PREFIX}{name.upper()}` | `{_escape(kind)}` | {default} | {text} |")
    return "\n".join([*lines, ""])


def _describe_class(kind: type, prefix: str, *parents: type) -> Iterator[str]:
    """Describe a dataclass of settings: name, type, default and the comment beside each field."""
    title = f"`{prefix.rstrip('.')}`: {kind.__name__}" if prefix else f"`{kind.__name__}`"
    yield f"### {title}\n\n{_mark_code(inspect.cleandoc(kind.__doc__ or ''))}\n"
    yield "| setting | type | default | |\n|---|---|---|---|"
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for cls in (*parents, kind):
        for name, annotation, comment in _read_fields(cls):
            field = fields[name]
            text = _mark_code(field.metadata["help"]) if "help" in field.metadata else comment
            yield f"| `{prefix}{name}` | `{_escape(annotation)}` | {_describe_default(field)} | {_escape(text)} |"
    yield ""


def _describe_default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        return _show(field.default)
    if field.default_factory is dataclasses.MISSING:
        return "required"
    value = field.default_factory()
    return "see below" if dataclasses.is_dataclass(value) else _show(value)


def _show(value: Any) -> str:
    return "" if value is None or value in ((), {}) else f"`{_escape(repr(value))}`"


def _read_fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Return name, type and comment of each field that a class declares itself, in the order of the source."""
    source = textwrap.dedent(inspect.getsource(kind))
    lines = source.splitlines()
    (declared,) = ast.parse(source).body
    assert isinstance(declared, ast.ClassDef)
    for node in declared.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind_of_value = _name_type(ast.unparse(node.annotation), vars(sys.modules[kind.__module__]))
            yield node.target.id, kind_of_value, _begin_upper(_find_comment(lines, node))


def _find_comment(lines: list[str], node: ast.AnnAssign) -> str:
    """Return the comment behind a field, or the lines of comment above it."""
    behind = lines[(node.end_lineno or node.lineno) - 1][node.end_col_offset or 0 :]
    if "#" in behind:
        text = behind.partition("#")[2].strip()
        return "" if text.startswith("noqa") else text
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith("#"):
            break
        above.insert(0, line.strip().lstrip("# "))
    return " ".join(above)


def _name_type(annotation: str, names: dict[str, Any]) -> str:
    """Return an annotation as people write values: choices by name."""
    found = names.get(annotation)
    if "Literal" in repr(found):
        return " or ".join(f"{choice!r}" for choice in get_args(found))
    return re.sub(r"Literal\[([^\]]*)\]", lambda choices: choices[1].replace(", ", " or "), annotation)


def _begin_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def write_requests() -> str:
    """Describe every request of the server, from the OpenAPI document."""
    from fastapi import APIRouter, FastAPI

    from elmo.serve import routes

    app = FastAPI()
    for router in vars(routes).values():
        if isinstance(router, APIRouter):
            app.include_router(router)
    document = app.openapi()
    return "\n".join(
        line
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for line in _describe_request(method, path, operation, document["components"]["schemas"])
    )


def _describe_request(method: str, path: str, operation: Any, schemas: Any) -> Iterator[str]:
    yield f"## {method.upper()} `{path}`\n"
    yield _mark_code(operation.get("description", operation.get("summary", ""))) + "\n"
    body = operation.get("requestBody")
    if body is not None:
        yield from _describe_schema("Request", body["content"]["application/json"]["schema"], schemas)
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    if answer:
        yield from _describe_schema("Response", answer, schemas)


def _describe_schema(title: str, schema: Any, schemas: Any) -> Iterator[str]:
    found = _resolve(schema, schemas)
    yield f"**{title}**: {_name_schema(schema)}\n"
    if "properties" not in found:
        return
    yield from _describe_fields(found, with_defaults=title == "Request")
    for inner in _list_inner(found, schemas):
        yield f"Each `{inner['title']}`:\n"
        yield from _describe_fields(inner, with_defaults=False)


def _describe_fields(schema: Any, *, with_defaults: bool) -> Iterator[str]:
    """Return a table of an object's fields; what is missing from a request has a default or is required."""
    yield ("| field | type | default | |\n|---|---|---|---|" if with_defaults else "| field | type | |\n|---|---|---|")
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else _show(field.get("default"))
        cells = [f"`{name}`", _name_schema(field), *([default] if with_defaults else [])]
        yield f"| {' | '.join(cells)} | {_escape(field.get('description', ''))} |"
    yield ""


def _resolve(schema: Any, schemas: Any) -> Any:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _list_inner(schema: Any, schemas: Any) -> Iterator[Any]:
    """Return the objects that fields of a schema consist of, each once."""
    names = dict.fromkeys(re.findall(r"#/components/schemas/(\w+)", repr(schema["properties"])))
    for name in names:
        if "properties" in schemas[name]:
            yield schemas[name]


def _name_schema(schema: Any) -> str:
    """Return the type of a value in words: "string", "list of numbers", "'float' or 'base64'"."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "enum" in schema or "const" in schema:
        return " or ".join(f'`"{value}"`' for value in schema.get("enum", [schema.get("const")]))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_name_schema, schema[key])))
    kind = schema.get("type", "any")
    if kind == "array":
        items = schema.get("items", {})
        return f"list of {_name_schema(items)}" if items else "list"
    return str(kind)


def _mark_code(text: str) -> str:
    """Return text in which flags, file names with patterns and tags are code."""
    text = re.sub(r"(?<![\w`])(--[a-z][\w-]*)(?!\w*`)", r"`\1`", text)
    return re.sub(r"(?<!`)(</?\w+>(?:…</?\w+>)?)(?!`)", r"`\1`", text)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PARTS: dict[str, Callable[[], str]] = {
    "commands": write_commands,
    "commands in Chinese": functools.partial(write_commands, "zh"),
    "training settings": write_training_settings,
    "task settings": write_task_settings,
    "corpus settings": write_corpus_settings,
    "vector settings": write_vector_settings,
    "server settings": write_server_settings,
    "requests": write_requests,
}
