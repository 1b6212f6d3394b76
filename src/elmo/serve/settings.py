"""The settings of a server, from flags or ELMO_SERVE_... in the environment."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import Field, PositiveFloat, PositiveInt
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from elmo.errors import ConfigError

PREFIX = "ELMO_SERVE_"


def _split(value: Any) -> Any:
    return shlex.split(value) if isinstance(value, str) else value


def _check_key(key: str) -> str:
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        raise ValueError("empty, or has spaces or characters beyond ASCII, which no header can carry")
    return key


# Several names in one variable are separated as in a shell.
Names = Annotated[tuple[str, ...], NoDecode, pydantic.BeforeValidator(_split)]
Key = Annotated[str, pydantic.AfterValidator(_check_key)]


class Settings(BaseSettings):
    """The settings of a server; ConfigError lists all invalid values."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", allow_inf_nan=False)

    models: Names = ()  # each a model or NAME=model; none: the default model
    indexes: Names = ()  # folders of `elmo neighbors --build`
    tasks: Names = ()  # folders of `elmo task train`, or NAME=folder
    precision: str = "auto"
    device: str = "cpu"
    threads: PositiveInt | None = None
    local_files_only: bool = False
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8600  # 0: any free port
    api_key: Annotated[Key | None, Field(repr=False)] = None
    api_key_file: str | None = None
    cors_origins: Names = ()
    allowed_hosts: Names = ()  # accepted Host names other than addresses and the machine's own name; * is any
    max_body_bytes: PositiveInt = 4 * 2**20
    max_sentences: PositiveInt = 2048  # per request
    max_words: PositiveInt = 65_536  # per request
    max_sentence_words: PositiveInt = 8192
    max_values: PositiveInt = 2**23  # numbers per response
    max_seconds: PositiveFloat = 30.0  # to send a request, to wait for its result, to receive the response
    max_connections: PositiveInt = 1024
    queue_words: PositiveInt = 262_144
    queue_requests: PositiveInt = 1024
    batch_words: PositiveInt = 8192
    batch_wait_ms: Annotated[float, Field(ge=0)] = 3.0

    def __init__(self, **given: Any) -> None:
        """Read the environment; what is given takes precedence over it."""
        try:
            super().__init__(**given)
        except pydantic.ValidationError as error:
            raise ConfigError(f"The server cannot start: {'; '.join(map(_describe, error.errors()))}.") from None

    @pydantic.model_validator(mode="after")
    def _check_together(self) -> "Settings":
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key and api_key_file are both given; leave one out")
        if self.queue_words < self.max_words:
            raise ValueError(
                f"queue_words is {self.queue_words}, but one request may have max_words, {self.max_words}; raise "
                "queue_words to at least that"
            )
        return self

    def read_api_key(self) -> str | None:
        """Return the key, read from its file if there is one."""
        if self.api_key_file is None:
            return self.api_key
        try:
            return _check_key(Path(self.api_key_file).read_text(encoding="utf-8", errors="replace").strip())
        except ValueError as error:
            raise ConfigError(f"{self.api_key_file} holds no key: its text is {error}.") from error


def _describe(fault: Any) -> str:
    reason = fault["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    if not fault["loc"]:
        return str(reason)
    name = fault["loc"][0]
    if name == "api_key":
        return f"api_key is {reason}"  # without the key
    if name not in Settings.model_fields:
        return f"{name} is not a setting"
    return f"{name} is {fault['input']!r:.60} ({PREFIX}{name.upper()} in the environment); {reason}"
