"""The files of the page, read once when the application is made; requests are answered from memory."""

import hashlib
from importlib.resources import files

from fastapi import FastAPI
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGES = {"/": "index.html", "/docs": "docs.html"}


def add_page(app: FastAPI) -> frozenset[str]:
    """Add the page to an application and give its paths, which need no key."""
    answers = {f"/page/{name}": (content, media_type) for name, content, media_type in _read_files()}
    answers |= {path: answers[f"/page/{name}"] for path, name in _PAGES.items()}
    for path, (content, media_type) in answers.items():
        _add_file(app, path, content, media_type)
    return frozenset(answers)


def _read_files() -> list[tuple[str, bytes, str]]:
    folder = files("elmo.serve") / "page"
    return [
        (file.name, file.read_bytes(), _TYPES[f".{file.name.rpartition('.')[2]}"])
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.is_file()
    ]


def _add_file(app: FastAPI, path: str, content: bytes, media_type: str) -> None:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def file(request: HttpRequest) -> Response:
        headers = {**_HEADERS, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)

    app.add_api_route(path, file, methods=["GET", "HEAD"], include_in_schema=False, response_model=None)
