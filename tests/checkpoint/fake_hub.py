"""The endpoints of the Hugging Face Hub that downloading and uploading a model need, on 127.0.0.1."""

import base64
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.checkpoint.local_server import LocalServer


class FakeHub(LocalServer):
    """`repos` maps a repository name to its files; every repository has one commit on `main`."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.failing: set[str] = set()  # answered with 503
        self.large_files: dict[str, bytes] = {}  # sha256 -> content, uploaded but not yet committed
        self.large_suffix: str | None = ".safetensors"
        self.commits: list[str] = []
        self.visibility: dict[str, Any] = {}
        self.needs_token = False
        self.requests: list[tuple[str, str]] = []
        super().__init__(_make_handler(self))

    def commit_of(self, repo_id: str) -> str:
        return hashlib.sha1(repr(sorted(self.repos[repo_id].items())).encode()).hexdigest()


def _make_handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def answer(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def refuse(self, status: int, code: str) -> None:
            self.answer({"error": code}, status, {"X-Error-Code": code, "X-Error-Message": code})

        def do_GET(self) -> None:
            path = self.note_request()
            if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
                self.describe(*match.groups())
            elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
                self.send_file(*match.groups())
            else:
                self.refuse(404, "NotFound")

        do_HEAD = do_GET  # noqa: N815

        def describe(self, repo_id: str, what: str | None, revision: str | None) -> None:
            if repo_id in hub.failing:
                self.refuse(503, "Unavailable")
            elif repo_id in hub.gated:
                self.refuse(403, "GatedRepo")
            elif repo_id not in hub.repos:
                self.refuse(404, "RepoNotFound")
            elif revision not in (None, "main", hub.commit_of(repo_id)):
                self.refuse(404, "RevisionNotFound")
            elif what == "tree":
                files = hub.repos[repo_id]
                self.answer([_describe_file(name, files[name]) for name in sorted(files)])
            else:
                self.answer({"id": repo_id, "sha": hub.commit_of(repo_id), "siblings": []})

        def send_file(self, repo_id: str, name: str) -> None:
            content = hub.repos[repo_id][name]
            headers = {"X-Repo-Commit": hub.commit_of(repo_id), "ETag": f'"{_git_id(content)}"'}
            self.answer(content, 200, headers)

        def do_POST(self) -> None:
            path = self.note_request()
            body = self.read_body()
            if hub.needs_token and self.headers.get("Authorization") != "Bearer right":
                self.refuse(401, "Unauthorized")
            elif path == "/api/repos/create":
                asked = json.loads(body)
                repo_id = f"{asked['organization']}/{asked['name']}"
                address = {"url": f"{hub.address}/{repo_id}"}
                hub.visibility.setdefault(repo_id, asked.get("visibility", asked.get("private")))
                self.answer(address, 409 if repo_id in hub.repos else 200)
                hub.repos.setdefault(repo_id, {})
            elif path == "/api/validate-yaml":
                self.answer({"warnings": [], "errors": []})
            elif path.endswith("/preupload/main"):
                self.answer({"files": [_upload_mode(hub, file["path"]) for file in json.loads(body)["files"]]})
            elif path.endswith("/info/lfs/objects/batch"):
                objects = [_upload_action(hub, entry) for entry in json.loads(body)["objects"]]
                self.answer({"transfer": "basic", "objects": objects})
            elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
                self.commit(match[1], [json.loads(line) for line in body.splitlines()])
            else:
                self.refuse(404, "NotFound")

        def commit(self, repo_id: str, entries: list[dict[str, Any]]) -> None:
            for entry in entries:
                value = entry["value"]
                if entry["key"] == "header":
                    hub.commits.append(value["summary"])
                elif entry["key"] == "file":
                    hub.repos[repo_id][value["path"]] = base64.b64decode(value["content"])
                elif entry["key"] == "lfsFile":
                    hub.repos[repo_id][value["path"]] = hub.large_files.pop(value["oid"])
            oid = hub.commit_of(repo_id)
            self.answer({"commitUrl": f"{hub.address}/{repo_id}/commit/{oid}", "commitOid": oid})

        def do_PUT(self) -> None:
            hub.large_files[self.note_request().removeprefix("/upload/")] = self.read_body()
            self.answer({})

        def note_request(self) -> str:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append((self.command, path))
            return path

        def read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

    return Handler


def _describe_file(name: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(content), "oid": _git_id(content)}


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _upload_mode(hub: FakeHub, name: str) -> dict[str, Any]:
    mode = "lfs" if hub.large_suffix and name.endswith(hub.large_suffix) else "regular"
    return {"path": name, "uploadMode": mode, "shouldIgnore": False, "oid": None}


def _upload_action(hub: FakeHub, entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "actions": {"upload": {"href": f"{hub.address}/upload/{entry['oid']}"}}}
