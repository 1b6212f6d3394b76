"""Public names of a package that are imported on first use, listed once: in the stub file beside __init__.py."""

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^from \.([\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose `__init__.pyi` imports its public names.

    The stub holds lines such as `from .model import Elmo as Elmo`, which type checkers and editors read too. A
    public function must not have the name of a module of its package: importing the module would hide it.
    """
    module = sys.modules[package]
    homes = _read_stub(module)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, original = homes[name]
        if not home:
            return import_module(f"{package}.{original}")
        return getattr(import_module(f"{package}.{home}"), original)

    def list_names() -> list[str]:
        return sorted({*homes, *(name for name in vars(module) if name.startswith("__"))})

    return load, list_names, sorted(homes)


def _read_stub(module: Any) -> dict[str, tuple[str, str]]:
    path = os.path.join(os.path.dirname(module.__file__), "__init__.pyi")  # noqa: PTH118, PTH120 (pathlib is slow)
    homes = {}
    for home, names in _IMPORT.findall(module.__spec__.loader.get_data(path).decode()):
        for item in filter(None, map(str.strip, names.strip("()").split(","))):
            original, _, alias = item.partition(" as ")
            homes[alias or original] = (home, original)
    return homes
