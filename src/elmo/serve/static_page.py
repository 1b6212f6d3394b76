"""A model -> the page as static files, with the responses that its examples need, computed now.

They are the responses of the application itself, by request, so the page of any web host shows what the server
would. Nothing is computed where it is shown: other sentences need `elmo serve`.
"""

import asyncio
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from elmo.errors import InputError
from elmo.files.durable import atomic_write, is_vacant, remove
from elmo.serve.app import create_app
from elmo.serve.served import open_served
from elmo.serve.settings import Settings

ANSWERS, INDEX = "answers", "index.json"
SHOWN_SUBSTITUTES = 8  # as in page/lists.js
_MARK = re.compile(r"\[([^\[\]]+)\]")


def write_page(
    folder: str | Path,
    model: str | Path | None = None,
    *,
    precision: str = "float32",
    local_files_only: bool = False,
) -> int:
    """Write the page with prepared examples to a folder, which replaces an earlier page; return the file count.

    InputError if the folder holds anything else.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder for the page.")
    if not is_vacant(target) and not (target / ANSWERS / INDEX).is_file():
        raise InputError(f"{target} is not empty and holds no page; choose a new folder.")
    names = () if model is None else (str(model),)
    settings = Settings(models=names, precision=precision, local_files_only=local_files_only)
    app = create_app(settings, open_served(settings))
    answers = asyncio.run(_compute(app))
    remove(target)
    with atomic_write(target) as aside:
        (aside / ANSWERS).mkdir(parents=True)
        (aside / "page").mkdir()
        for file in (files("elmo.serve") / "page").iterdir():
            if file.is_file() and not file.name.startswith("docs."):  # the API, which is not there
                (aside / "page" / file.name).write_bytes(file.read_bytes())
        index = (aside / "page" / "index.html").read_text(encoding="utf-8")
        (aside / "page" / "index.html").unlink()
        prepared = index.replace("<html ", f'<html data-answers="{ANSWERS}/" ', 1)
        (aside / "index.html").write_text(prepared, encoding="utf-8")
        for name, found in answers.items():
            (aside / ANSWERS / name).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        places = {key: name for name, found in answers.items() for key in found}
        (aside / ANSWERS / INDEX).write_text(json.dumps(places, ensure_ascii=False), encoding="utf-8")
        return sum(path.is_file() for path in aside.rglob("*"))


def request_key(path: str, body: dict[str, Any] | None) -> str:
    """Return the name of a request among the prepared ones; page/api.js makes the same."""
    if body is None:
        return path
    return f"{path} {json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"


async def _compute(app: FastAPI) -> dict[str, dict[str, Any]]:
    """Return, for each file of answers, the responses by request."""
    async with app.router.lifespan_context(app):
        models = await _ask(app, "models", None)
        answers = {"models.json": {"models": models}}
        examples = json.loads((files("elmo.serve") / "page" / "examples.json").read_text(encoding="utf-8"))
        language = models["models"][0]["card"]["language"] or ""
        chosen = examples["zh" if language.startswith("zh") else "en"]
        for number, example in enumerate(chosen["compare"]):
            answers[f"compare-{number}.json"] = await _compare(app, example["sentences"], models["models"][0])
        for number, example in enumerate(chosen["senses"]):
            body = {
                "sentences": example["sentences"],
                "num_senses": example["num_senses"],
                "model": models["models"][0]["name"],
            }
            found = await _ask(app, "senses", body)
            answers[f"senses-{number}.json"] = {request_key("senses", body): found}
        return answers


async def _compare(app: FastAPI, marked: list[str], model: dict[str, Any]) -> dict[str, Any]:
    """Return the responses that the page needs for a few sentences, whichever words are marked.

    The vectors of phrases by meaning are those of the phrases that the example marks.
    """
    sentences = [_MARK.sub(r"\1", sentence) for sentence in marked]
    asked = {"sentences": sentences, "encoding_format": "base64", "model": model["name"]}
    found: dict[str, Any] = {}

    async def add(path: str, body: dict[str, Any]) -> Any:
        response = found[request_key(path, body)] = await _ask(app, path, body)
        return response

    read = (await add("embed", {**asked, "layers": "all"}))["sentences"]
    if model["has_context"]:
        await add("embed", {**asked, "layers": "meaning"})
        spans = [_find_phrases(sentence, own["words"]) for sentence, own in zip(marked, read, strict=True)]
        if any(spans):
            await add("embed", {**asked, "layers": "meaning", "spans": spans})
    if model["predicts_words"]:
        for sentence, own in zip(sentences, read, strict=True):
            for index in range(len(own["words"])):
                body = {"sentence": sentence, "index": index, "model": model["name"], "top_k": SHOWN_SUBSTITUTES}
                await add("substitutes", body)
        for sentence, own in zip(marked, read, strict=True):
            if model["units"] == "characters" and _find_phrases(sentence, own["words"]):
                await add(
                    "substitutes", {"sentence": sentence, "model": model["name"], "top_k": SHOWN_SUBSTITUTES}
                )
    return found


def _find_phrases(marked: str, words: list[dict[str, Any]]) -> list[list[int]]:
    """Return the range of words that a sentence marks, if there are several."""
    mark = _MARK.search(marked)
    if mark is None:
        return []
    start, end = mark.start(), mark.end() - 2  # of the characters, without brackets
    inside = [number for number, word in enumerate(words) if start <= word["start"] < end]
    return [[inside[0], inside[-1] + 1]] if len(inside) > 1 else []


async def _ask(app: FastAPI, path: str, body: dict[str, Any] | None) -> Any:
    """Return the application's response to one request, without a network."""
    content = b"" if body is None else json.dumps(body).encode()
    incoming = [{"type": "http.request", "body": content, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not incoming:
            await asyncio.Event().wait()  # this client does not leave
        return incoming.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": "GET" if body is None else "POST", "path": f"/{path}", "raw_path": f"/{path}".encode(),
        "query_string": b"", "headers": [(b"host", b"localhost")], "server": ("localhost", 80),
        "client": ("127.0.0.1", 0),
    }  # fmt: skip
    await app(scope, receive, send)
    found = json.loads(b"".join(message.get("body", b"") for message in sent))
    if sent[0]["status"] != 200:
        raise InputError(f"The page cannot be prepared: {found['error']['message']}")
    return found
