"""The help of a command without the marks of its Python types: names of arguments as a manual writes them."""

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

_NAMES = {
    "str": "TEXT", "int": "N", "float": "X", "int range": "N", "float range": "X", "path": "PATH", "Path": "PATH",
    "list[str]": "TEXT", "list[float]": "X", "list[int]": "N", "list[Path]": "PATH", "file": "FILE",
}  # fmt: skip
_ARGUMENT = re.compile(r"(?m)^(  [A-Z][A-Z_|]*) <[\w\[\]. ]+>( *)(?=$|\S)")
_OPTION = re.compile(r"(?m)^(  (?:-\w, )?--[\w-]+ )<([\w\[\]. ]+)>( *)")
_REQUIRED = re.compile(r"\{([A-Z][A-Z_|]*)\}")


def tidy(text: str) -> str:
    """Return the text of a help page with {NAME} as NAME and <type> left out or named; columns stay aligned."""
    usage, line_feed, rest = text.partition("\n")
    usage = _REQUIRED.sub(r"\1", usage)
    rest = _ARGUMENT.sub(_without_type, rest)
    return usage + line_feed + _OPTION.sub(_with_name, rest)


def _without_type(match: re.Match[str]) -> str:
    return match[1] + (" " * (len(match[0]) - len(match[1])) if match[2] else "")


def _with_name(match: re.Match[str]) -> str:
    name = _NAMES.get(match[2], f"<{match[2]}>")
    padding = " " * (len(match[0]) - len(match[1]) - len(name)) if match[3] else ""
    return match[1] + name + padding


class TidyCommand(TyperCommand):
    """A command with a tidy help page."""

    def get_help(self, ctx: Any) -> str:
        """Return the help page."""
        return tidy(super().get_help(ctx))


class TidyGroup(TyperGroup):
    """A group of commands with a tidy help page."""

    def get_help(self, ctx: Any) -> str:
        """Return the help page."""
        return tidy(super().get_help(ctx))
