import io
import sys
import threading
import types

import pytest

from elmo import progress
from elmo.tasks.fit import TaskReport


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(monkeypatch) -> Terminal:
    """Make stderr a terminal; not a fixture, since pytest sets stderr anew before each test."""
    monkeypatch.setenv("TERM", "xterm")
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    return stderr


def test_long_work_shows_rate_and_remaining_time(monkeypatch):
    terminal = watch(monkeypatch)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    with progress.progress_bar(unit="sentences", num_bytes=20, prints=False) as advance:
        for _ in range(2):
            advance(10)
    assert "2 sentences, " in terminal.getvalue() and "/s, 0:00:00 left" in terminal.getvalue()


def test_short_work_shows_nothing(monkeypatch):
    terminal = watch(monkeypatch)
    with progress.progress_bar(unit="sentences", num_bytes=20, prints=False) as advance:
        advance(20)
    assert terminal.getvalue() == ""


def test_no_bar_among_results_on_one_terminal(monkeypatch):
    terminal = watch(monkeypatch)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    monkeypatch.setattr(sys, "stdout", Terminal())
    with progress.progress_bar(unit="sentences", num_bytes=20, prints=True) as advance:
        advance(20)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("done_bytes", "num_bytes", "expected"),
    [
        (0, None, "3,000 sentences, 300/s"),
        (0, 50, "3,000 sentences, 300/s"),
        (100, 3700, "3,000 sentences, 300/s, 0:06:00 left"),
        (100, 90, "3,000 sentences, 300/s, 0:00:00 left"),
    ],
)
def test_the_text_of_the_progress_bar(done_bytes, num_bytes, expected):
    assert progress.describe(3000, "sentences", 10.0, done_bytes, num_bytes) == expected


@pytest.mark.parametrize("kind", ["task", "work", "bar"])
def test_without_a_terminal_a_line_comes_however_long_a_step_takes(monkeypatch, kind):
    assert progress.SECONDS_BETWEEN_LINES <= 30
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setattr(progress, "can_draw", lambda: False)
    printed = threading.Event()
    lines: list[str] = []

    def take(bar: progress.StatusBar, line: str) -> None:
        lines.append(line)
        printed.set()

    monkeypatch.setattr(progress.StatusBar, "say", take)
    if kind == "task":
        work = TaskReport(shown=True)
    elif kind == "work":
        work = progress.progress_bar(unit="words", num_bytes=10, prints=False)
    else:
        work = progress.StatusBar(9)
    with work as bar:
        assert printed.wait(30)
        if kind == "bar":
            bar.show(3, "update 3 of 9")
            lines.clear()
            printed.clear()
            assert printed.wait(30)
    assert lines[-1].startswith("update 3 of 9 (after 0:00:0" if kind == "bar" else "starting (after 0:00:0")


def test_work_that_is_not_shown_prints_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.001)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    with progress.progress_bar(unit="words", num_bytes=10, shown=False) as advance:
        advance(10)
        threading.Event().wait(0.02)
    assert capsys.readouterr() == ("", "")


def test_lines_stay_above_the_bar(monkeypatch):
    terminal = watch(monkeypatch)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    with progress.StatusBar(10) as bar:
        bar.show(3, "update 3 of 10")
        bar.say("saved model")
    assert "update 3 of 10" in terminal.getvalue() and "saved model\n" in terminal.getvalue().replace("\r", "")


@pytest.mark.parametrize(
    ("shell", "widgets", "drawn"),
    [
        ("ZMQInteractiveShell", True, True),
        ("ZMQInteractiveShell", False, False),
        ("TerminalInteractiveShell", True, False),
    ],
)
def test_a_notebook_with_widgets_gets_a_bar(monkeypatch, shell, widgets, drawn):
    ipython = types.SimpleNamespace(get_ipython=type(shell, (), {}))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: object() if widgets else None)
    assert progress.can_draw() == drawn
