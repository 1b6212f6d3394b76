"""Lazy imports: the public names of a package, and optional dependencies, with advice on installing them."""

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
    """Import a module; if it is missing, raise a ConfigError with the command that installs it.

    `what` is the feature that needs the module, as in `require("torch", "train", "elmo train")`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        top_level = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top_level:
            raise  # the module exists, but one of its own imports is missing
        raise ConfigError(f"{what} needs {top_level}: {install_command(extra)}") from error


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose `__init__.pyi` imports its public names.

    The stub holds lines such as `from .model import Elmo as Elmo`, which type checkers and editors also read. A
    public function must not have the name of a module of its package: importing the module would hide it.
    """
    module = sys.modules[package]
    exports = _read_stub(module)

    def load(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        submodule, original = exports[name]
        if not submodule:
            return import_module(f"{package}.{original}")
        return getattr(import_module(f"{package}.{submodule}"), original)

    def list_names() -> list[str]:
        return sorted({*exports, *(name for name in vars(module) if name.startswith("__"))})

    return load, list_names, sorted(exports)


def _read_stub(module: Any) -> dict[str, tuple[str, str]]:
    path = os.path.join(os.path.dirname(module.__file__), "__init__.pyi")  # noqa: PTH118, PTH120 (pathlib is slow)
    exports = {}
    for submodule, names in _IMPORT.findall(module.__spec__.loader.get_data(path).decode()):
        for item in filter(None, map(str.strip, names.strip("()").split(","))):
            original, _, alias = item.partition(" as ")
            exports[alias or original] = (submodule, original)
    return exports
