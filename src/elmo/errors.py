"""The errors this package raises on purpose: each message says what came, what was expected, what to do."""


class ElmoError(Exception):
    """Any mistake that the caller can mend; commands print it in one line and exit with 2."""


class ConfigError(ElmoError):
    """A setting is unknown, out of range or contradicts another one."""


class InputError(ElmoError):
    """The text or the arguments given to a model are not what it takes."""


class CheckpointError(ElmoError):
    """A model file is missing, damaged, foreign or not what its description says."""


def first_line(error: BaseException) -> str:
    """Give what an error of another library says in one line: the first that is not empty, or its name."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
