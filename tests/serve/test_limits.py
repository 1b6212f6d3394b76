"""Limits: too large, too many, too slow; each is rejected with a message, and the next request is answered."""

import asyncio
import json
import threading
import time

import numpy as np
import pytest

from elmo.errors import ConfigError, InputError
from elmo.serve import batching
from elmo.serve.app import create_app
from elmo.serve.batching import Batcher
from elmo.serve.middleware import Metrics
from elmo.serve.served import Served, ServedModel
from elmo.serve.settings import Settings, read_settings
from elmo.tasks import load
from tests.serve.conftest import serving


@pytest.mark.parametrize(
    ("limit", "body", "message"),
    [
        ({"max_words": 8}, {"input": ["a", "b", "c"]}, "input has 9 words, with two boundaries per sentence"),
        ({"max_words": 6}, {"input": ["a b c", "d e"]}, "input has 9 words, with two boundaries per sentence"),
        ({"max_words": 6}, {"input": "a,b,c"}, "input has 7 words, with two boundaries per sentence"),
        ({"max_body_bytes": 20}, {"input": "twenty letters or more"}, "The body is longer than 20 bytes"),
        ({"max_values": 20}, {"input": ["a", "b"]}, "The response would have 24 numbers, but at most 20 are sent"),
    ],
)
def test_requests_over_a_limit_are_rejected(language_model, limit, body, message):
    with serving(language_model, **limit) as client:
        response = client.post("/v1/embeddings", json=body)
        assert response.status_code == 413 and message in response.json()["error"]["message"]
        assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 200


@pytest.mark.parametrize(
    ("limits", "items", "message"),
    [
        ({"max_words": 7}, [["a"] * 6], "items has 8 words"),
        ({"max_words": 7}, [[""] * 6], "items has 8 words"),
        ({"max_words": 7}, ["a b c d e f"], "items has 8 words"),
        ({"max_words": 7}, [["", ""]] * 3, "items has 12 words"),
        ({"max_words": 7}, ["a,b,c,d"], "items has 9 words"),
    ],
)
def test_words_of_a_list_count_for_a_task(language_model, tagger, limits, items, message):
    with serving(language_model, tasks={"places": load(tagger)}, **limits) as client:
        response = client.post("/tasks/places", json={"items": items})
        assert response.status_code == 413 and message in response.json()["error"]["message"]
        assert client.post("/tasks/places", json={"items": [["a", ""]]}).status_code == 200


def test_only_names_of_this_server_are_answered_without_a_key(language_model):
    def status(client, host):
        return client.get("/models", headers={"Host": host}).status_code

    with serving(language_model) as client:
        for host in ("localhost", "LOCALHOST:8600", "127.0.0.1:8600", "192.168.1.7", "[::1]:8600", "a.localhost"):
            assert status(client, host) == 200, host
        for host in ("evil.example", "evil.example:8600", "127.0.0.1.evil.example", "localhost.evil.example"):
            assert status(client, host) == 403, host
        error = client.post("/v1/embeddings", json={"input": "a"}, headers={"Host": "evil.example"}).json()["error"]
        assert error["code"] == "unknown_host" and "--allowed-host NAME" in error["message"]
    with serving(language_model, allowed_hosts=("elmo.example.org",)) as client:
        assert [status(client, host) for host in ("Elmo.example.org:80", "evil.example")] == [200, 403]
    with serving(language_model, allowed_hosts=("*",)) as client:
        assert status(client, "evil.example") == 200
    with serving(language_model, api_key="secret") as client:  # which another site does not know
        assert (
            client.get("/models", headers={"Host": "evil.example", "Authorization": "Bearer secret"}).status_code == 200
        )


def test_closing_does_not_wait_forever_for_a_computation(monkeypatch):
    monkeypatch.setattr(batching, "CLOSING_SECONDS", 0.1)
    is_computing, may_end = threading.Event(), threading.Event()

    def compute(sentences):
        is_computing.set()
        may_end.wait(60)
        return sentences

    async def run():
        batcher = Batcher(Metrics(), Settings(batch_words=16))
        response = asyncio.ensure_future(batcher.compute("slow", compute, [["a"]]))
        while not is_computing.is_set():
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(batcher.close(), 20)
            assert not response.done()
        finally:
            may_end.set()

    asyncio.run(run())


def test_a_cancelled_request_is_not_computed():
    is_computing, may_end, computed = threading.Event(), threading.Event(), []

    def compute(sentences):
        computed.extend(sentences)
        is_computing.set()
        assert may_end.wait(20)
        return sentences

    async def run():
        batcher = Batcher(Metrics(), Settings(batch_words=16))
        first = asyncio.ensure_future(batcher.compute("work", compute, [["first"]]))
        await asyncio.to_thread(is_computing.wait, 20)
        cancelled = asyncio.ensure_future(batcher.compute("work", compute, [["cancelled"]]))
        third = asyncio.ensure_future(batcher.compute("work", compute, [["third"]]))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.gather(first, third)
        await batcher.close()

    asyncio.run(run())
    assert computed == [["first"], ["third"]]


def test_the_values_of_all_layers_count(language_model):
    with serving(language_model, max_values=40) as client:
        assert client.post("/embed", json={"sentences": "a b", "layers": "all"}).status_code == 413
        assert client.post("/embed", json={"sentences": "a b", "layers": "top"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer schlüssel".encode()}, 401),
        ({"Authorization": "Basic secret"}, 401),
        ({"Authorization": "bearer secret"}, 200),
        ({"Authorization": "Bearer secret2"}, 401),
    ],
)
def test_the_key_is_required(language_model, headers, status):
    with serving(language_model, api_key="secret") as client:
        response = client.post("/v1/embeddings", json={"input": "a"}, headers=headers)
        assert response.status_code == status
        if status == 401:
            assert response.json()["error"]["code"] == "unauthorized"
            assert response.headers["www-authenticate"] == "Bearer"


def test_metrics_count(language_model):
    with serving(language_model) as client:
        client.post("/v1/embeddings", json={"input": ["I went", "a"]})
        client.post("/v1/embeddings", json={})
        text = client.get("/metrics").text
        assert 'elmo_requests_total{route="/v1/embeddings",status="200"} 1.0' in text
        assert 'elmo_requests_total{route="/v1/embeddings",status="422"} 1.0' in text
        assert "elmo_words_total 7.0" in text


def test_no_file_is_reached_by_a_path(client):
    for path in ("/page/../settings.py", "/page/%2e%2e/settings.py", "/page//etc/passwd", "/page/index.html/x"):
        assert client.get(path).status_code == 404, path


def test_a_page_that_is_known_is_not_sent_again(client):
    first = client.get("/")
    assert first.headers["content-security-policy"].startswith("default-src 'none'")
    again = client.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def call(app, *messages, path="/v1/embeddings", method="POST"):
    """One request with the messages of the client as they come; None waits for ever."""
    return await call_with(app, iter(messages), path=path, method=method)


async def call_with(app, messages, *, path="/v1/embeddings", method="POST"):
    sent = []

    async def receive():
        message = next(messages, None)
        if message is None:
            await asyncio.Event().wait()
        return message

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
             "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": [], "scheme": "http",
             "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1)}  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"]).get("error", {}).get("code")


BODY = {"type": "http.request", "body": b'{"input": "a"}', "more_body": False}


class BlockedModel:
    """A model that computes when it is let."""

    def __init__(self, model):
        self.model, self.may_compute, self.num_calls = model, threading.Event(), 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def encode(self, sentences):
        self.num_calls += 1
        assert self.may_compute.wait(20)
        return self.model.encode(sentences)


def blocked_app(language_model, **settings):
    model = BlockedModel(language_model)
    return model, create_app(Settings(**settings), Served({"tiny": ServedModel("tiny", model)}))


async def start_computing(model, app):
    """Return a request that the model is computing."""
    request = asyncio.ensure_future(call(app, BODY))
    while not model.num_calls:
        await asyncio.sleep(0.01)
    return request


async def fill_queue(model, app):
    """Return a request that the model is computing and one that fills the queue."""
    computing, waiting = await start_computing(model, app), asyncio.ensure_future(call(app, BODY))
    while not app.state.service.batcher._num_tokens:
        await asyncio.sleep(0.01)
    return computing, waiting


def test_a_body_without_a_length_is_counted_while_it_comes(language_model):
    app = blocked_app(language_model, max_body_bytes=5000)[1]
    parts = iter([{"type": "http.request", "body": b" " * 1000, "more_body": True}] * 100)
    assert asyncio.run(call_with(app, parts))[0] == 413
    assert len(list(parts)) > 90  # which nobody asked for


def test_a_missing_body_times_out(language_model):
    async def run():
        app = blocked_app(language_model, max_seconds=0.1)[1]
        return await call(app, {"type": "http.request", "body": b"{", "more_body": True})

    assert asyncio.run(run()) == (408, "request_timeout")


def test_a_response_that_takes_too_long_is_abandoned(language_model):
    model, app = blocked_app(language_model, max_seconds=1)

    async def run():
        async with app.router.lifespan_context(app):
            response = await call(app, BODY)
            model.may_compute.set()
            return response

    assert asyncio.run(run()) == (504, "result_timeout")


def test_a_full_queue_rejects_requests_until_there_is_room(language_model):
    model, app = blocked_app(language_model, queue_words=3, max_words=3)

    async def run():
        async with app.router.lifespan_context(app):
            computing, waiting = await fill_queue(model, app)
            refused = await call(app, BODY)
            model.may_compute.set()
            return refused, await computing, await waiting, await call(app, BODY)

    assert asyncio.run(run()) == ((503, "overloaded"), (200, None), (200, None), (200, None))


def test_a_clock_that_jumps_changes_nothing(language_model, monkeypatch):
    with serving(language_model, max_seconds=5) as client:
        start = time.time()
        for jump in (1e6, -1e6, 0):
            monkeypatch.setattr(time, "time", lambda jump=jump: start + jump)
            assert client.post("/v1/embeddings", json={"input": "a bank"}).status_code == 200
            assert client.get("/health").status_code == 200


def test_all_invalid_settings_are_reported_together():
    with pytest.raises(ConfigError) as error:
        read_settings(port=70_000, max_words=0, max_seconds=0, api_key="has space")
    for part in ("port is 70000", "max_words is 0", "max_seconds is 0", "api_key is invalid"):
        assert part in str(error.value)
    with pytest.raises(ConfigError, match="max_seconds is inf"):
        read_settings(max_seconds=float("inf"))
    with pytest.raises(ConfigError, match="queue_words is 5"):
        read_settings(queue_words=5, max_words=10)


def test_health(language_model):
    with serving(language_model) as client:
        assert client.get("/health").json() == {"status": "ok"}


def test_one_bad_request_does_not_fail_those_computed_with_it(language_model, monkeypatch):
    monkeypatch.setattr(batching, "WAIT_SECONDS", 0.2)

    class Choosy(BlockedModel):
        def encode(self, sentences):
            if any("bad" in sentence for sentence in sentences):
                raise InputError("A bad word came.")
            return super().encode(sentences)

    model = Choosy(language_model)
    app = create_app(Settings(), Served({"tiny": ServedModel("tiny", model)}))
    model.may_compute.set()

    async def run():
        async with app.router.lifespan_context(app):
            bad = {**BODY, "body": b'{"input": "a bad bank"}'}
            return await asyncio.gather(call(app, BODY), call(app, bad), call(app, BODY))

    assert asyncio.run(run()) == [(200, None), (400, "invalid_input"), (200, None)]


def test_a_long_request_is_split_and_joined(language_model):
    texts = [f"the bank {number} " * (1 + number % 5) for number in range(40)]
    with serving(language_model, batch_words=16) as client:
        response = client.post("/v1/embeddings", json={"input": texts}).json()
        vectors = np.array([entry["embedding"] for entry in response["data"]])
        np.testing.assert_allclose(vectors, language_model.encode(texts), atol=1e-5)


def test_batches_are_limited_in_words_except_for_one_long_sentence():
    lengths = [2, 20, 20, 2, 2, 2, 2, 14, 5, 5, 5]  # and two boundaries each; a batch takes 16
    batches = []

    def compute(sentences):
        batches.append([len(sentence) for sentence in sentences])
        return batches[-1]

    async def run():
        batcher = Batcher(Metrics(), Settings(batch_words=16))
        try:
            return await batcher.compute("lengths", compute, [["a"] * length for length in lengths])
        finally:
            await batcher.close()

    assert asyncio.run(run()) == lengths
    assert batches == [[2], [20], [20], [2, 2, 2, 2], [14], [5, 5], [5]]


def test_health_reports_that_the_computing_thread_has_ended(client, monkeypatch):
    assert client.get("/health").status_code == 200
    monkeypatch.setattr(Batcher, "is_alive", False)
    assert client.get("/health").json()["error"]["code"] == "not_alive"
