"""Optional dependencies: import one, or say which command installs it."""

from importlib import import_module
from typing import Any

from elmo.errors import ConfigError

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
