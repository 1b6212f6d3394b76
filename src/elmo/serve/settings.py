"""The settings of a server, from flags or ELMO_SERVE_... in the environment."""

import os
import re
import shlex
from dataclasses import dataclass, field, fields
from typing import Any

from elmo.config import Settings as CheckedSettings
from elmo.config import option, parse

PREFIX = "ELMO_SERVE_"
PAGE_WORDS = 15_000  # per model in a page without a server; more words hardly improve the results


@dataclass(frozen=True)
class Settings(CheckedSettings):
    """The settings of a server."""

    models: tuple[str, ...] = ()  # MODEL or NAME=MODEL; if empty, the two included models
    tasks: tuple[str, ...] = option((), "Trained task, or NAME=FOLDER; repeatable.", "--task FOLDER")
    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8600, "Port to listen on; 0 chooses a free one.", least=0, most=65_535)
    api_key: str | None = field(default=None, repr=False)  # no flag, which other users of the machine could see
    cors_origins: tuple[str, ...] = option(
        (),
        "Site whose pages may send requests, such as https://example.org; repeatable.",
        "--cors-origin SITE",
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "Host name by which a server without a key may be reached, such as elmo.example.org; * allows any. "
        "Addresses, localhost and the machine's own name always work. Repeatable.",
        "--allowed-host NAME",
    )
    precision: str = option("auto", "float32, int8, or auto; on a GPU also bfloat16.")
    device: str = option("cpu", "Device of the models: cpu, cuda, cuda:1, mps.")
    threads: int | None = option(None, "Number of CPU threads.", above=0)
    local_files_only: bool = option(False, "Do not access the network; only use downloaded files.")
    max_body_bytes: int = option(4 * 2**20, "Maximum size of a request's body.", above=0)
    max_words: int = option(65_536, "Maximum number of words per request; each sentence counts as two more.", above=0)
    max_values: int = option(2**23, "Maximum number of values per response.", above=0)
    max_seconds: float = option(30.0, "Maximum time to send a request, and to wait for its result.", above=0)
    max_connections: int = option(1024, "Maximum number of open connections.", above=0)
    queue_words: int = option(262_144, "Maximum number of queued words; beyond it, 503 is returned.", above=0)
    batch_words: int = option(8192, "Maximum number of words per batch.", above=0)

    def faults(self) -> list[str]:
        """Return one phrase per invalid setting; none contains the key."""
        faults = super().faults()
        if self.api_key is not None and not re.fullmatch("[!-~]+", self.api_key):
            faults.append("api_key is invalid: it is empty, or has spaces or characters beyond ASCII")
        if self.queue_words < self.max_words:
            faults.append(f"queue_words is {self.queue_words}; it must be at least max_words, {self.max_words}")
        return faults


def read_settings(**flags: Any) -> Settings:
    """Return the settings from the flags or else from the environment; ConfigError lists all faults."""
    from pydantic import TypeAdapter  # from the extra `serve`; help pages do not need it

    values: dict[str, Any] = {}
    for setting in fields(Settings):
        field_type: Any = setting.type
        if (text := os.environ.get(f"{PREFIX}{setting.name.upper()}")) is not None:
            # Several names are separated as in a shell.
            read: Any = shlex.split if field_type == tuple[str, ...] else TypeAdapter(field_type).validate_strings
            try:
                values[setting.name] = read(text)
            except ValueError:
                values[setting.name] = text  # parse reports it
    return parse(Settings, values | flags, f"The configuration of the server (flags, {PREFIX}… in the environment)")
