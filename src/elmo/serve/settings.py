"""What a server is told when it starts, by flags or by ELMO_SERVE_… in the environment; frozen and checked.

Nothing here can be changed by a request.
"""

import dataclasses
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from elmo.config import list_not_positive
from elmo.errors import ConfigError

PREFIX = "ELMO_SERVE_"


@dataclass(frozen=True)
class Settings:
    """What is served, to whom, and how much of it."""

    models: tuple[str, ...] = ()  # each a model or NAME=model; none: the default model
    indexes: tuple[str, ...] = ()  # folders of `elmo neighbors --build`
    tasks: tuple[str, ...] = ()  # folders of `elmo task train`, or NAME=folder
    precision: str = "float32"
    device: str = "cpu"
    threads: int | None = None
    local_files_only: bool = False
    host: str = "127.0.0.1"
    port: int = 8600
    workers: int = 1
    api_key: str | None = None
    api_key_file: str | None = None
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # names of this server, besides addresses and its own; * allows all
    max_body_bytes: int = 4 * 2**20
    max_sentences: int = 2048  # of one request
    max_words: int = 65_536  # of one request
    max_sentence_words: int = 8192
    max_values: int = 2**23  # numbers in one answer
    max_seconds: float = 30.0  # to send a request, to wait for its answer, to take it
    max_connections: int = 1024
    queue_words: int = 262_144  # that may wait for their turn
    queue_requests: int = 1024
    batch_words: int = 8192  # embedded together
    batch_wait_ms: float = 3.0  # for others to come, when nobody waits

    def __post_init__(self) -> None:
        """Refuse what cannot be served, every fault told together."""
        found = list_not_positive(self, "threads", "workers", *_positive_names())
        found += [f"{name} is {getattr(self, name)}; it must be finite" for name in _not_finite(self)]
        if not 0 <= self.port <= 65_535:
            found.append(f"port is {self.port}; it must be from 0 (any free one) to 65535")
        if self.batch_wait_ms < 0:
            found.append(f"batch_wait_ms is {self.batch_wait_ms}; it must be 0 or more")
        if self.api_key is not None and self.api_key_file is not None:
            found.append("api_key and api_key_file are both given; leave one out")
        if self.api_key is not None and not _is_key(self.api_key):
            found.append("api_key is empty or has spaces or letters beyond ASCII, which no header can carry")
        if self.queue_words < self.max_words:
            found.append(
                f"queue_words is {self.queue_words}, but one request may have max_words, {self.max_words}; "
                "make it at least as many"
            )
        if found:
            raise ConfigError(f"The server cannot start: {'; '.join(found)}.")

    def read_api_key(self) -> str | None:
        """Give the key, from its file if it has one."""
        if self.api_key_file is None:
            return self.api_key
        key = Path(self.api_key_file).read_text(encoding="utf-8", errors="replace").strip()
        if not _is_key(key):
            raise ConfigError(
                f"{self.api_key_file} holds no key: one line of ASCII letters without spaces was expected."
            )
        return key

    def to_environment(self) -> dict[str, str]:
        """Give the variables that make these settings again, for the processes of several workers."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {variable_of(name): _write(value) for name, value in given.items() if value is not None}


def read_settings(environment: Mapping[str, str], given: Mapping[str, Any] | None = None) -> Settings:
    """Make settings of the environment and of what was given besides, which counts more; None is not given."""
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Settings):
        text = environment.get(variable_of(field.name))
        if text is not None:
            values[field.name] = _read(variable_of(field.name), text, hints[field.name])
    values.update({name: value for name, value in (given or {}).items() if value is not None})
    return Settings(**values)


def variable_of(name: str) -> str:
    """Give the environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def _positive_names() -> list[str]:
    starts = ("max_", "queue_", "batch_words")
    return [field.name for field in dataclasses.fields(Settings) if field.name.startswith(starts)]


def _not_finite(settings: Settings) -> list[str]:
    return [name for name in ("max_seconds", "batch_wait_ms") if not math.isfinite(getattr(settings, name))]


def _is_key(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _write(value: Any) -> str:
    if isinstance(value, tuple):
        return shlex.join(value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _read(variable: str, text: str, hint: Any) -> Any:
    try:
        if hint == tuple[str, ...]:
            return tuple(shlex.split(text))
        if hint is bool:
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
        if hint in (int, int | None):
            return int(text)
        return float(text) if hint is float else text
    except (ValueError, KeyError) as error:
        kinds: dict[Any, str] = {bool: "1 or 0", float: "a number", tuple[str, ...]: "names as a shell reads them"}
        raise ConfigError(f"{variable} is {text!r}; give {kinds.get(hint, 'a whole number')}.") from error
