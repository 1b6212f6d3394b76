"""A server in a separate process under bad conditions: it responses or rejects, and memory is returned."""

import contextlib
import json
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from elmo.cli import main
from elmo.extras import install_command
from tests.serve.conftest import Process, start_process


def connect(server: Process) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def post(body: bytes, *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
    return head.encode() + b"\r\n" + body


def is_fine(server: Process) -> bool:
    """Whether a request is answered, at the latest when those before it have been, however slow the machine."""
    for _ in range(100):
        status = httpx.post(f"{server.address}v1/embeddings", json={"input": "a bank"}, timeout=60).status_code
        if status not in (503, 504):
            return status == 200
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.needs("/proc")
def test_bad_clients_do_not_hurt_the_others(language_folder, language_model):
    with start_process(language_folder, "--max-seconds", "8", "--queue-words", "66000") as server:
        url = f"{server.address}v1/embeddings"
        warm = {"input": ["the bank went to the river"] * 1000, "encoding_format": "base64"}
        for _ in range(3):
            assert httpx.post(url, json=warm, timeout=60).status_code == 200
        # The largest response below is one that an honest client may request.
        many = {"sentences": ["the bank " * 40] * 780, "layers": "all"}
        assert httpx.post(f"{server.address}embed", json=many, timeout=60).status_code == 200
        before = server.memory_mb()

        for body in (b"{", b"\x00" * 1000, b'{"input": [[1, 2]]}', b"[" * 1_000_000):
            assert 400 <= httpx.post(url, content=body, timeout=60).status_code < 500
        assert httpx.post(url, content=b" " * 100_000_000, timeout=60).status_code == 413
        assert httpx.post(url, content=(b" " * 1_000_000 for _ in range(100)), timeout=60).status_code == 413
        assert httpx.post(url, json={"input": "a " * 1_000_000}, timeout=60).status_code == 413
        assert is_fine(server)

        for count in (0, 10, 500):  # clients that leave before, while and after they ask
            for _ in range(20):
                with connect(server) as leaving:
                    leaving.sendall(post(json.dumps(warm).encode())[:count] or b"P")
        for _ in range(20):
            with connect(server) as leaving:
                leaving.sendall(post(json.dumps(warm).encode()))
        assert is_fine(server)

        with connect(server) as slow_head, connect(server) as slow_body, connect(server) as slow_reader:
            slow_head.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost:")
            slow_body.sendall(post(b'{"inp', length=1000))
            slow_reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow_reader.sendall(post(json.dumps(many).encode()).replace(b"/v1/embeddings", b"/embed"))
            assert is_fine(server)
            response = read_all(slow_body)
            assert response.startswith(b"HTTP/1.1 408") and b'"code":"request_timeout"' in response
            with contextlib.suppress(ConnectionError):
                assert read_all(slow_head) == b""  # closed
        assert is_fine(server)

        with ThreadPoolExecutor(40) as pool:  # more than may wait
            body = {"input": ["the bank went to the river"] * 500}
            responses = list(pool.map(lambda _: httpx.post(url, json=body, timeout=60), range(80)))
        statuses = {response.status_code for response in responses}
        assert 200 in statuses and statuses <= {200, 503, 504}
        expected = language_model.encode("the bank went to the river")
        for response in responses:
            if response.status_code == 200:
                np.testing.assert_allclose(response.json()["data"][-1]["embedding"], expected, atol=1e-5)
            elif response.status_code == 503:
                assert int(response.headers["retry-after"]) >= 1
        assert is_fine(server)

        deadline = time.monotonic() + 40  # memory is given back when nobody asks
        while server.memory_mb() > before + 60 and time.monotonic() < deadline:
            time.sleep(1)
        assert server.memory_mb() < before + 60
        assert server.stop() in (0, -signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.needs("SIGKILL")
def test_sigterm_finishes_requests_in_progress(language_folder):
    with start_process(language_folder) as server:
        body = json.dumps({"input": ["the bank went to the river " * 20] * 300}).encode()
        responses = []

        def ask() -> None:
            responses.append(httpx.post(f"{server.address}v1/embeddings", content=body, timeout=60).status_code)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        metrics = f"{server.address}metrics"
        while "elmo_waiting_words 0.0" in httpx.get(metrics, timeout=60).text and not responses:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert responses == [200] * 6
        assert server.process.wait(30) in (0, -signal.SIGTERM)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.address}health")


@pytest.mark.slow
@pytest.mark.needs("SIGKILL")
def test_sigterm_ends_a_server_with_abandoned_requests(language_folder):
    large = ("--max-words", "3000000", "--queue-words", "3000000")
    with start_process(language_folder, *large, "--max-body-bytes", "20000000", "--max-seconds", "2") as server:
        body = {"sentences": [["bank"] * 2_000_000]}
        assert httpx.post(f"{server.address}score", json=body, timeout=60).status_code == 504
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) in (0, -signal.SIGTERM)


def status_of(server: Process, sent: bytes) -> bytes:
    """Return the status line of the response; nothing if the connection is reset before it is read."""
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        with contextlib.suppress(ConnectionError):
            return read_all(connection).split(b"\r\n")[0]
        return b""


@pytest.mark.needs("/proc")
def test_heads_are_bounded(language_folder):
    start = b"GET /models HTTP/1.1\r\nHost: localhost\r\n"
    with start_process(language_folder) as server:
        before = server.memory_mb()
        trailer = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: "
        for sent in (
            start + b"X-Long: " + b"a" * 60_000_000,
            start + b"".join(b"X-%d: a\r\n" % number for number in range(1_000_000)),
            trailer + b"a" * 60_000_000,
        ):
            assert status_of(server, sent) in (b"HTTP/1.1 400 Bad Request", b"")
        assert server.memory_mb() < before + 30
        for wrong in (b"nonsense\r\n\r\n", b"GET \xff HTTP/1.1\r\n\r\n", start + b"Content-Length: x\r\n\r\n"):
            assert status_of(server, wrong).startswith(b"HTTP/1.1 400 "), wrong
        long = httpx.get(f"{server.address}models", headers={"X-Much": "a" * 60_000}, timeout=60)
        assert long.status_code == 200
        assert is_fine(server)


def test_connections_without_a_request_are_closed(language_folder):
    with start_process(language_folder) as server:
        idle = [connect(server) for _ in range(5)]
        assert httpx.get(f"{server.address}health", timeout=60).status_code == 200
        idle[3].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost:")
        response = b""
        while not response.endswith(b'{"status":"ok"}'):  # head and body may arrive apart
            received = idle[3].recv(4096)
            assert received
            response += received
        idle[4].sendall(b"GET /health HTTP/1.1\r\nHost:")
        for connection in idle:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(100) == b""
            connection.close()
        assert is_fine(server)


@pytest.mark.slow
@pytest.mark.needs("/proc")
def test_a_response_that_is_not_read_is_dropped(language_folder):
    body = json.dumps({"sentences": ["the bank " * 40] * 780, "layers": "all"}).encode()  # of tens of megabytes
    with start_process(language_folder) as server, connect(server) as slow_reader:
        slow_reader.sendall(post(body).replace(b"/v1/embeddings", b"/embed"))
        assert slow_reader.recv(12) == b"HTTP/1.1 200"
        sockets = server.sockets()
        deadline = time.monotonic() + 90
        while server.sockets() >= sockets and time.monotonic() < deadline:
            time.sleep(0.5)
        assert not server.sockets() >= sockets
        assert is_fine(server)


def test_startup_errors_are_one_line(language_folder, tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cases = [
            ((tmp_path / "nothing",), "nothing"),
            ((language_folder, "--port", taken.getsockname()[1]), "cannot listen on"),
            (
                (language_folder, "--max-words", "0"),
                "max_words is 0; it must be above 0",
            ),
            ((language_folder, "--task", tmp_path), "is not a trained task"),
        ]
        for arguments, message in cases:
            assert main(["serve", *map(str, arguments)]) == 2
            stderr = capsys.readouterr().err
            assert message in stderr and stderr.startswith("elmo: ") and stderr.count("\n") == 1


def test_a_missing_package_is_named_with_its_extra(language_folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", str(language_folder)]) == 2
    assert install_command("serve") in capsys.readouterr().err
