"""A group of options becomes the options of every command that takes it."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from elmo.cli.options import CorpusOptions, expand_options
from elmo.errors import InputError


@dataclass(frozen=True)
class Group:
    size: Annotated[int, typer.Option("--size", help="Size of it.")] = 3
    name: Annotated[str | None, typer.Option("--name")] = None


def test_the_fields_of_a_group_are_options_and_arrive_together():
    calls = []

    @expand_options
    def command(word: str, group: Group, loud: bool = False) -> None:
        """Say a word."""
        calls.append((word, group, loud))

    app = typer.Typer()
    app.command()(command)
    runner = CliRunner()
    assert runner.invoke(app, ["hello", "--size", "5", "--loud"]).exit_code == 0
    assert runner.invoke(app, ["hello"]).exit_code == 0
    assert calls == [("hello", Group(5, None), True), ("hello", Group(3, None), False)]
    assert runner.invoke(app, ["hello", "--group", "x"]).exit_code == 2
    shown = runner.invoke(app, ["--help"], terminal_width=200).output
    assert "Say a word." in shown and "Size of it." in shown and "--name" in shown


@pytest.mark.parametrize(
    ("given", "first", "last"), [(None, 0, None), ("5:", 5, None), (":9", 0, 9), ("5:9", 5, 9), (":", 0, None)]
)
def test_ranges_of_sentences(given, first, last):
    chosen = CorpusOptions(sentences=given).filter
    assert (chosen.first_sentence, chosen.last_sentence) == (first, last)


@pytest.mark.parametrize("given", ["5", "a:b", "1:2:3", ""])
def test_what_is_no_range_is_refused(given):
    with pytest.raises(InputError, match=f"--sentences is '{given}'; give FIRST:LAST, as in 0:1000"):
        _ = CorpusOptions(sentences=given).filter
