"""`elmo serve`: models behind HTTP, with a page to try them on."""

import os
import sys
from typing import Annotated

import typer

from elmo.cli import options
from elmo.errors import ConfigError


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="Models, each a folder, a file, an alias or a hub id, or NAME=MODEL; the first is asked without "
            "a name. Without any, the default model.",
        ),
    ] = None,
    indexes: Annotated[
        list[str] | None,
        typer.Option("--index", metavar="FOLDER", help="An index of `elmo neighbors --build`; repeatable."),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="FOLDER", help="A trained task, or NAME=FOLDER; repeatable."),
    ] = None,
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1, this machine alone")] = None,
    port: Annotated[int | None, typer.Option(show_default="8600", help="0 takes any free one.")] = None,
    api_key_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Whose one line every request must bring as its key.")
    ] = None,
    cors_origins: Annotated[
        list[str] | None,
        typer.Option("--cors-origin", help="A site whose pages may ask, such as https://example.org; repeatable."),
    ] = None,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A name by which a server without a key may be asked, such as elmo.example.org; * allows all. "
            "Addresses, localhost and the machine's own name always work. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(show_default="1", help="Processes, each with models of its own.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(show_default="float32", help="float32, bfloat16, int8, or auto.")
    ] = None,
    device: Annotated[str | None, typer.Option(show_default="cpu", help="cpu, cuda, cuda:1, mps.")] = None,
    threads: options.Threads = None,
    max_body_bytes: Annotated[int | None, typer.Option(show_default="4194304", help="Of a request.")] = None,
    max_sentences: Annotated[int | None, typer.Option(show_default="2048", help="Of a request.")] = None,
    max_words: Annotated[int | None, typer.Option(show_default="65536", help="Of a request.")] = None,
    max_sentence_words: Annotated[int | None, typer.Option(show_default="8192", help="Of a sentence.")] = None,
    max_values: Annotated[int | None, typer.Option(show_default="8388608", help="Numbers in an answer.")] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(show_default="30", help="To send a request, to wait for its answer, to take it."),
    ] = None,
    max_connections: Annotated[int | None, typer.Option(show_default="1024", help="Open at once.")] = None,
    queue_words: Annotated[
        int | None, typer.Option(show_default="262144", help="That may wait; more are refused with 503.")
    ] = None,
    queue_requests: Annotated[int | None, typer.Option(show_default="1024", help="That may wait.")] = None,
    batch_words: Annotated[int | None, typer.Option(show_default="8192", help="Embedded together.")] = None,
    batch_wait_ms: Annotated[
        float | None, typer.Option(show_default="3", help="How long a request waits for others to join it.")
    ] = None,
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Serve models over HTTP, with a page to try them on.

    Each option can be given in the environment too: --max-words is ELMO_SERVE_MAX_WORDS, and a key that is in no
    file is ELMO_SERVE_API_KEY. SIGTERM and Ctrl-C finish what is being answered, then stop.

    \b
    Examples:
      elmo serve my-model
      elmo serve en=my-model small --index index --task entities --port 8080
    """
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"elmo serve needs the package {error.name}; install it with: pip install 'modern-elmo[serve]'"
        ) from error
    from elmo.serve.running import run
    from elmo.serve.settings import read_settings

    limits = {
        "max_body_bytes": max_body_bytes, "max_sentences": max_sentences, "max_words": max_words,
        "max_sentence_words": max_sentence_words, "max_values": max_values, "max_seconds": max_seconds,
        "max_connections": max_connections, "queue_words": queue_words, "queue_requests": queue_requests,
        "batch_words": batch_words, "batch_wait_ms": batch_wait_ms,
    }  # fmt: skip
    given = {
        "models": _tuple(models), "indexes": _tuple(indexes), "tasks": _tuple(tasks), "host": host, "port": port,
        "api_key_file": api_key_file, "cors_origins": _tuple(cors_origins),
        "allowed_hosts": _tuple(allowed_hosts), "workers": workers,
        "precision": precision, "device": device, "threads": threads,
        "local_files_only": local_files_only or None, **limits,
    }  # fmt: skip
    run(read_settings(os.environ, given), _announce)


def _announce(address: str) -> None:
    print(f"elmo: serving at {address} (Ctrl-C stops)", file=sys.stderr, flush=True)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return tuple(values) if values else None
