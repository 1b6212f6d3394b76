"""What a person is told who interrupts a long command: the exact command that resumes it."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_call: list[str] = []
_advice: list[str] = []


def remember_call(arguments: Sequence[str]) -> None:
    """Keep the arguments of this call, because most commands are resumed by the same call."""
    _call[:] = arguments
    _advice.clear()


@contextmanager
def resumable(find_arguments: Callable[[], Sequence[str] | None] = lambda: None) -> Iterator[None]:
    """Say how to resume what runs in this context if it is interrupted.

    `find_arguments` returns the arguments of the call that resumes it; None is the same call.
    """
    try:
        yield
    except KeyboardInterrupt:
        _advice[:] = [_describe(find_arguments())]
        raise


def interruption() -> str:
    """Return the line about an interruption."""
    return "; ".join(["interrupted", *_advice])


def _describe(arguments: Sequence[str] | None) -> str:
    given = _call if arguments is None else arguments
    with_input = " with the same standard input" if arguments is None and "-" in given else ""
    return f"resume{with_input}: {shlex.join(['elmo', *given])}"
