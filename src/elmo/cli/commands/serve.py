"""`elmo serve`: models behind HTTP, with a page to try them on."""

import sys
from importlib import import_module
from typing import Annotated

import typer

from elmo.cli import options
from elmo.errors import ConfigError

PACKAGES = ("fastapi", "httptools", "orjson", "prometheus_client", "pydantic_settings", "sklearn", "uvicorn")
Names = list[str] | None


# Without a flag, a value comes from the environment or is the default of elmo.serve.settings.
def serve(
    models: Annotated[
        Names,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="Models to serve: folders, files, aliases or hub ids, each also as NAME=MODEL. Requests that "
            "name no model use the first. Without any, the default model.",
        ),
    ] = None,
    indexes: Annotated[
        Names,
        typer.Option("--index", metavar="FOLDER", help="Index built by `elmo neighbors --build`; repeatable."),
    ] = None,
    tasks: Annotated[
        Names, typer.Option("--task", metavar="FOLDER", help="Trained task, or NAME=FOLDER; repeatable.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(show_default="127.0.0.1, this machine only", help="Address to listen on.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(show_default="8600", help="Port to listen on; 0 chooses a free one.")
    ] = None,
    api_key_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with the key that every request must send.")
    ] = None,
    cors_origins: Annotated[
        Names,
        typer.Option("--cors-origin", help="Site whose pages may ask, such as https://example.org; repeatable."),
    ] = None,
    allowed_hosts: Annotated[
        Names,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="Host name by which a server without a key may be reached, such as elmo.example.org; * allows "
            "any. Addresses, localhost and the machine's own name always work. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(show_default="1", help="Number of processes, each with its own models.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(show_default="float32", help="float32, bfloat16, int8, or auto.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(show_default="cpu", help="Device of the models: cpu, cuda, cuda:1, mps.")
    ] = None,
    threads: options.Threads = None,
    max_body_bytes: Annotated[
        int | None, typer.Option(show_default="4194304", help="Maximum size of a request's body.")
    ] = None,
    max_sentences: Annotated[
        int | None, typer.Option(show_default="2048", help="Maximum number of sentences per request.")
    ] = None,
    max_words: Annotated[
        int | None, typer.Option(show_default="65536", help="Maximum number of words per request.")
    ] = None,
    max_sentence_words: Annotated[
        int | None, typer.Option(show_default="8192", help="Maximum number of words per sentence.")
    ] = None,
    max_values: Annotated[
        int | None, typer.Option(show_default="8388608", help="Maximum number of numbers per response.")
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            show_default="30.0",
            help="Maximum time to send a request, to wait for its result, and to receive the response.",
        ),
    ] = None,
    max_connections: Annotated[
        int | None, typer.Option(show_default="1024", help="Maximum number of open connections.")
    ] = None,
    queue_words: Annotated[
        int | None,
        typer.Option(show_default="262144", help="Maximum number of queued words; beyond it, 503 is returned."),
    ] = None,
    queue_requests: Annotated[
        int | None, typer.Option(show_default="1024", help="Maximum number of queued requests.")
    ] = None,
    batch_words: Annotated[
        int | None, typer.Option(show_default="8192", help="Maximum number of words per batch.")
    ] = None,
    batch_wait_ms: Annotated[
        float | None,
        typer.Option(show_default="3.0", help="How long a request waits for others."),
    ] = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Serve models over HTTP, with a page to try them on.

    Each option can also be set in the environment: --max-words is ELMO_SERVE_MAX_WORDS, and a key without a file
    is ELMO_SERVE_API_KEY. SIGTERM and Ctrl-C stop the server after requests that were sent before are answered.

    \b
    Examples:
      elmo serve my-model
      elmo serve en=my-model small --index index --task entities --port 8080
    """
    given = {name: value for name, value in locals().items() if value is not None and value is not False}
    check_packages("elmo serve")
    from elmo.serve.server import run
    from elmo.serve.settings import Settings

    run(Settings(**given), _announce)


def check_packages(command: str) -> None:
    """Raise ConfigError with the extra to install if a package of the server is missing."""
    for package in PACKAGES:
        try:
            import_module(package)
        except ImportError as error:
            raise ConfigError(
                f"{command} needs the package {package}; install it with: pip install 'modern-elmo[serve]'"
            ) from error


def _announce(address: str) -> None:
    print(f"elmo: serving at {address} (Ctrl-C stops)", file=sys.stderr, flush=True)
