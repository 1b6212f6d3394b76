"""The models that are part of the package, by name, and the one that is opened when none is named."""

from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "models"
EMBEDDED = {"en-small": _FOLDER / "en-small"}
DEFAULT_NAME = "en-small"
DEFAULT_MODEL = EMBEDDED[DEFAULT_NAME]
