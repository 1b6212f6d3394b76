"""A real HTTP server on 127.0.0.1 that serves bytes from memory and misbehaves on request."""

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler

from tests.checkpoint.local_server import LocalServer


class FileServer(LocalServer):
    """`files` maps paths to contents; the other attributes say how to misbehave from now on."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}  # path -> error to answer with
        self.redirects: dict[str, str] = {}
        self.break_after: list[int] = []  # one entry per answer: cut the connection after so many bytes
        self.stall_after: int | None = None  # send so many bytes, then wait for `released`
        self.stalled, self.released = threading.Event(), threading.Event()
        self.honours_range = True
        self.sends_etag = True
        self.sends_length = True
        self.requests: list[tuple[str, str | None]] = []  # path and Range header
        super().__init__(_make_handler(self))

    @property
    def ranges(self) -> list[str | None]:
        return [value for _, value in self.requests]

    def __exit__(self, *error: object) -> None:
        self.released.set()
        super().__exit__(*error)


def _make_handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(None)

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            server.requests.append((self.path, wanted))
            self.answer(wanted)

        def answer(self, wanted: str | None) -> None:
            if self.path in server.redirects:
                self.send_response(302)
                self.send_header("Location", server.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif self.path in server.statuses or self.path not in server.files:
                self.send_error(server.statuses.get(self.path, 404))
            else:
                self.send_content(server.files[self.path], wanted if server.honours_range else None)

        def send_content(self, content: bytes, wanted: str | None) -> None:
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if server.sends_length:
                self.send_header("Content-Length", str(len(content) - start))
            if server.sends_etag:
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.end_headers()
            if self.command == "HEAD":
                return
            body = content[start:]
            if server.stall_after is not None:
                self.wfile.write(body[: server.stall_after])
                self.wfile.flush()
                body = body[server.stall_after :]
                server.stalled.set()
                server.released.wait()
            if server.break_after:
                body = body[: server.break_after.pop(0)]
            with contextlib.suppress(OSError):  # the client was killed: that is what some tests are about
                self.wfile.write(body)

    return Handler
