"""Imports at the time of use: public names of a package, and optional dependencies or how to install them."""

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from elmo.errors import ConfigError

_IMPORT = re.compile(r"^from \.([\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)
# Works in a clone. Once the package is published: "pip install 'modern-elmo[{extra}]'".
_INSTALL = "python -m pip install -c constraints.txt '.[{extra}]'"


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return _INSTALL.format(extra=extra)


def require(module: str, extra: str, what: str) -> Any:
    """Import a module; ConfigError with the command that installs it if it is missing.

    `what` needs the module, as in `require("torch", "train", "elmo train")`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        top_level = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top_level:
            raise  # the module is there, but something that it needs is not
        raise ConfigError(f"{what} needs {top_level}: {install_command(extra)}") from error


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
