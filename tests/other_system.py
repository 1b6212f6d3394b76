"""A plugin of pytest that lets tests see a system like Windows: pytest -p tests.other_system.

Modules of tests import an os, a signal and a sys without what Windows lacks, and no resource; other libraries are
not deceived. Only tests that name something missing are run: they must be skipped or do without it.
"""

import builtins
import importlib
import inspect
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

MISSING_MODULES = {"resource", "fcntl", "pwd", "grp", "pty", "termios"}
MISSING_NAMES = {
    "os": {"fork", "forkpty", "mkfifo", "killpg", "setsid", "getuid", "geteuid", "getpgid", "register_at_fork"},
    "signal": {"SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "setitimer"},
    "multiprocessing": set(),
    "sys": set(),
}
CHANGED = {("sys", "platform"): "win32"}
_NAMED = re.compile(r"\b(os\.(fork|mkfifo|killpg)|resource\.|import resource|SIGKILL)|/proc/")
_import = builtins.__import__


class _Module(types.ModuleType):
    """Another module without some of its names; what is set is set there."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(module.__name__)
        object.__setattr__(self, "module", module)

    def __getattribute__(self, name: str) -> Any:
        module = object.__getattribute__(self, "module")
        if name in MISSING_NAMES[module.__name__]:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r} (tests.other_system)")
        if module.__name__ == "multiprocessing" and name == "get_context":
            return _get_context
        return CHANGED.get((module.__name__, name)) or getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "module"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "module"), name)


def _get_context(method: str) -> Any:
    if method == "fork":
        raise ValueError("cannot find context for 'fork' (tests.other_system)")
    return importlib.import_module("multiprocessing").get_context(method)


_modules = {name: _Module(importlib.import_module(name)) for name in MISSING_NAMES}


def _import_for_tests(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> types.ModuleType:
    importer = str((globals or {}).get("__name__"))
    if importer.startswith("tests.") and importer != __name__ and level == 0:
        if name in MISSING_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r} (tests.other_system)", name=name)
        if name in _modules:
            return _modules[name]
    return _import(name, globals, locals, fromlist or (), level)


builtins.__import__ = _import_for_tests


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that name something missing, or say that they need it."""
    if not config.option.collectonly:
        items[:] = [item for item in items if item.get_closest_marker("needs") or _names_missing(item)]


def _names_missing(item: pytest.Item) -> bool:
    function = getattr(item, "function", None)
    if function is None or item.path.name == "test_systems.py":  # which runs this plugin
        return False
    return _NAMED.search(inspect.getsource(function)) is not None
