"""A real HTTP server on 127.0.0.1, in a thread."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound="LocalServer")


class LocalServer:
    """Serves while its `with` block runs."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self: Server) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
