"""The errors that this package raises: each message names the value, the rule and the fix."""


class ElmoError(Exception):
    """A mistake that the caller can fix; commands print it in one line and exit with 2."""


class ConfigError(ElmoError):
    """A setting is unknown, out of range or contradicts another one."""


class InputError(ElmoError):
    """The text or the arguments of a call are not valid."""


class CheckpointError(ElmoError):
    """A model file is missing, damaged, of an unknown format or contradicts its description."""


def first_line(error: BaseException) -> str:
    """Return the first non-empty line of another library's error message, or else the name of the error."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
