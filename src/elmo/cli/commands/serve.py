"""`elmo serve` and `elmo page`: models behind HTTP with a page to try them on, and the page without a server."""

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

from elmo.cli import options
from elmo.cli.options import argument, option
from elmo.cli.terminal import say
from elmo.extras import require
from elmo.language import translate

PACKAGES = ("fastapi", "orjson", "prometheus_client", "pydantic_settings", "uvicorn")


def _flag(kind: Any, help: str, shown: str | bool = True, *, spec: str = "") -> Any:
    return Annotated[kind | None, option(spec, help, shown=shown)]


# One flag per setting of elmo.serve.settings. A value that is not given comes from the environment, or is the
# default of the setting, which help pages show.
_FLAGS: dict[str, Any] = {
    "models": Annotated[
        list[str] | None,
        argument(
            "MODEL",
            "Models to serve: folders, files, aliases or hub ids, each also as NAME=MODEL. Requests that name no "
            "model use the first. Without any, en-small and zh-small, chosen by the language of the text.",
            shown=False,
        ),
    ],
    "indexes": _flag(list[str], "Index built by `elmo neighbors --build`; repeatable.", spec="--index FOLDER"),
    "tasks": _flag(list[str], "Trained task, or NAME=FOLDER; repeatable.", spec="--task FOLDER"),
    "host": _flag(str, "Address to listen on.", "127.0.0.1, this machine only"),
    "port": _flag(int, "Port to listen on; 0 chooses a free one.", "8600"),
    "api_key_file": _flag(str, "File with the key that every request must send.", spec="FILE"),
    "cors_origins": _flag(
        list[str], "Site whose pages may send requests, such as https://example.org; repeatable.", spec="--cors-origin"
    ),
    "allowed_hosts": _flag(
        list[str],
        "Host name by which a server without a key may be reached, such as elmo.example.org; * allows any. "
        "Addresses, localhost and the machine's own name always work. Repeatable.",
        spec="--allowed-host NAME",
    ),
    "precision": _flag(str, "float32, int8, or auto; on a GPU also bfloat16.", "auto"),
    "device": _flag(str, "Device of the models: cpu, cuda, cuda:1, mps.", "cpu"),
    "threads": options.Threads,
    "max_body_bytes": _flag(int, "Maximum size of a request's body.", "4194304"),
    "max_sentences": _flag(int, "Maximum number of sentences per request.", "2048"),
    "max_words": _flag(int, "Maximum number of words per request.", "65536"),
    "max_sentence_words": _flag(int, "Maximum number of words per sentence.", "8192"),
    "max_values": _flag(int, "Maximum number of numbers per response.", "8388608"),
    "max_seconds": _flag(
        float, "Maximum time to send a request, to wait for its result, and to receive the response.", "30.0"
    ),
    "max_connections": _flag(int, "Maximum number of open connections, and of requests in progress.", "1024"),
    "queue_words": _flag(int, "Maximum number of queued words; beyond it, 503 is returned.", "262144"),
    "queue_requests": _flag(int, "Maximum number of queued requests.", "1024"),
    "batch_words": _flag(int, "Maximum number of words per batch.", "8192"),
    "batch_wait_ms": _flag(float, "How long a request waits to be batched with others.", "3.0"),
    "local_files_only": options.LocalFilesOnly,
}


def serve(**given: Any) -> None:
    """Serve models over HTTP, with a page to try them on.

    Each option can also be set in the environment: --max-words is ELMO_SERVE_MAX_WORDS, and a key without a file
    is ELMO_SERVE_API_KEY. SIGTERM and Ctrl-C stop the server after requests that were sent before are answered.

    \b
    Examples:
      elmo serve my-model
      elmo serve en=my-model small --index index --task entities --port 8080
    """
    _check_packages()
    from elmo.serve.server import run
    from elmo.serve.settings import Settings

    def announce(address: str) -> None:
        print("elmo:", translate(f"serving at {address} (Ctrl-C stops)"), file=sys.stderr, flush=True)

    given = {name: value for name, value in given.items() if value is not None and value is not False}
    run(Settings(**given), announce)


def page(
    models: Annotated[
        list[str] | None,
        argument(
            "MODEL",
            "Models of the page, each also as NAME=MODEL; without any, en-small and zh-small.",
            shown=False,
        ),
    ] = None,
    *,
    output: Annotated[Path, option("--output -o FOLDER", "Folder to write the page to.")],
    vocabulary_size: Annotated[
        int,
        option("--vocabulary-size N", "Keep the N most frequent words; with more, visitors load more.", min=1000),
    ] = 15_000,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Write the page as plain files; the models run in the browser.

    The folder contains the models in int8. Paths in it are relative, and after the first visit the page works
    without a network. A page written before is replaced.

    \b
    Examples:
      elmo page --output site
      python -m http.server --directory site
    """
    _check_packages()
    from elmo.serve.page_folder import write_page
    from elmo.serve.served import open_served
    from elmo.serve.settings import Settings

    settings = Settings(models=tuple(models or ()), local_files_only=local_files_only)
    num_bytes = write_page(open_served(settings), output, vocabulary_size)
    say(f"Wrote {output}, {num_bytes / 1e6:.1f} MB; serve it with any web server.")


def _check_packages() -> None:
    """Raise ConfigError with the extra to install if a package of the server is missing."""
    for package in PACKAGES:
        require(package, "serve", "elmo serve")


serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _FLAGS.items()
    ]
)
