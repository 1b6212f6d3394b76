"""Run an action in a forked process that ends before its n-th file operation, for every n."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

_OPERATIONS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "shutil.copyfile"}
_KILLED, _FAILED = 77, 78


def kill_everywhere(action: Callable[[], object], root: Path) -> Iterator[int]:
    """Yield after each kill of `action` before one of its operations on files below `root`, until it succeeds."""
    number = 0
    while _run(action, root, number):
        yield number
        number += 1


def _run(action: Callable[[], object], root: Path, last: int) -> bool:
    """Return whether the process was killed before its operation number `last`."""
    sys.stdout.flush()
    if (process := os.fork()) == 0:
        try:
            _kill_before(str(root), last)
            action()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(_FAILED)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, _KILLED), f"the action failed with {code} at operation {last}"
    return code == _KILLED


def _kill_before(root: str, last: int) -> None:
    num_left = last

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal num_left
        if event == "open":
            path, _, flags = arguments
            is_change = bool(int(flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        elif event in _OPERATIONS:
            path, is_change = arguments[0], True
        else:
            return
        # Below a folder that is opened for rmtree, names are relative to it.
        if is_change and (not Path(str(path)).is_absolute() or str(path).startswith(root)):
            if num_left == 0:
                os._exit(_KILLED)
            num_left -= 1

    sys.addaudithook(audit)
