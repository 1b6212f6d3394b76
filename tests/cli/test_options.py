"""Typed functions become commands: groups of options, settings classes, help pages."""

import contextlib
import io
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from elmo.cli.command import argument, make_command, option


@dataclass(frozen=True)
class Group:
    size: Annotated[int, option("--size N", "Size of it.")] = 3
    name: Annotated[str | None, option("--name", "Name of it.")] = None


@dataclass(frozen=True)
class Inner:
    rate: float = field(default=0.5, metadata={"help": "Rate of it.", "spec": "--speed X"})
    secret: int = 1  # without a help text, so without an option


@dataclass(frozen=True)
class Settings:
    inner: Inner = field(default_factory=Inner)
    kind: Literal["a", "b"] = field(default="a", metadata={"help": "Kind of it.", "spec": ""})
    pairs: dict[str, str] = field(default_factory=dict, metadata={"help": "Pairs.", "spec": "A=B"})


def say(
    word: Annotated[str, argument("WORD", "The word.")],
    group: Group,
    settings: Annotated[dict[str, Any], Settings, {"kind": "depends"}],
    loud: bool = option("--loud", "Shout.", False),
    how_often: Literal["once", "twice"] = option("", "How often.", "once"),
) -> None:
    """Say a word.

    \b
    Example:
      say hello
    """
    CALLS.append((word, group, settings, loud, how_often))


CALLS: list[tuple[Any, ...]] = []


def call(*arguments: str) -> tuple[int, str]:
    CALLS.clear()
    page = io.StringIO()
    with contextlib.redirect_stdout(page), contextlib.suppress(SystemExit):
        try:
            make_command(say, "say").main(list(arguments), prog_name="say", standalone_mode=False)
        except Exception as error:
            return 2, error.format_message()  # type: ignore[attr-defined]
    return 0, page.getvalue()


def test_grouped_options_become_settings():
    assert call("hello") == (0, "")
    assert [("hello", Group(3, None), {}, False, "once")] == CALLS
    assert call("hello", "--size", "5", "--loud", "--speed", "2", "--pairs", "x=y", "--how-often", "twice")[0] == 0
    assert [("hello", Group(5, None), {"inner.rate": 2.0, "pairs": ["x=y"]}, True, "twice")] == CALLS


def test_wrong_options_are_refused():
    for wrong in (["--secret", "3"], ["--group", "x"], ["--how-often", "never"], ["--size", "many"]):
        assert call("hello", *wrong)[0] == 2
        assert not CALLS


def test_the_help_page_names_values_and_defaults():
    page = call("--help")[1]
    for shown in ("Usage: say [OPTIONS] WORD", "--size N", "[default: 3]", "--speed X", "[default: 0.5]",
                  "--how-often once|twice", "[default: depends]", "--pairs A=B", "  say hello\n"):  # fmt: skip
        assert shown in page, page
