"""`elmo serve` serves models over HTTP, with a page; `elmo page` writes the page for use without a server."""

import sys
from pathlib import Path
from typing import Annotated, Any

from elmo.cli import options
from elmo.cli.command import argument, option
from elmo.cli.terminal import say
from elmo.extras import require
from elmo.language import translate
from elmo.serve.settings import PAGE_WORDS, Settings, read_settings


def serve(
    models: list[str] | None = argument(
        "MODEL",
        "Models to serve: folders, files, aliases or hub ids, each also as NAME=MODEL. Requests without a model name "
        "use the first. By default, en-small and zh-small, chosen by the language of the text.",
        None,
    ),
    *,
    settings: Annotated[dict[str, Any], Settings, {"host": "127.0.0.1, this machine only", "threads": "all cores"}],
) -> None:
    """Serve models over HTTP, with a web page to try them.

    Each option can also be set in the environment: --max-words is ELMO_SERVE_MAX_WORDS. Requests must send the key
    in ELMO_SERVE_API_KEY, if there is one. SIGTERM and Ctrl-C stop the server after the requests in progress are
    answered.

    \b
    Examples:
      elmo serve my-model
      elmo serve en=my-model small --task entities --port 8080
    """
    require("fastapi", "serve", "elmo serve")
    from elmo.serve.server import run

    def announce(address: str) -> None:
        print("elmo:", translate(f"serving at {address} (Ctrl-C stops)"), file=sys.stderr, flush=True)

    run(read_settings(**settings, **({"models": models} if models else {})), announce)


def page(
    models: list[str] | None = argument(
        "MODEL", "Models of the page, each also as NAME=MODEL; by default, en-small and zh-small.", None
    ),
    output: Path = option("--output -o FOLDER", "Folder to write the page to."),
    vocabulary_size: int = option(
        "", "Keep the N most frequent words; more words take longer to load.", PAGE_WORDS, min=1000
    ),
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Write the page as plain files; the models run in the browser.

    The folder contains the models in int8. Paths in it are relative, and after the first visit the page works
    offline. An existing page is replaced.

    \b
    Examples:
      elmo page --output site
      python -m http.server --directory site
    """
    require("fastapi", "serve", "elmo page")
    from elmo.serve.page_folder import write_page
    from elmo.serve.served import open_served

    settings = Settings(models=tuple(models or ()), local_files_only=local_files_only)
    num_bytes = write_page(open_served(settings), output, vocabulary_size)
    say(f"Wrote {output}, {num_bytes / 1e6:.1f} MB; serve it with any web server.")
