import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elmo.checkpoint.download import cache_folder, fetch_url
from elmo.errors import CheckpointError

from .file_server import FileServer

SIGNATURE = b"\x89HDF"
CONTENT = SIGNATURE + bytes(range(256)) * 2000  # several blocks of reading
OTHER = SIGNATURE + CONTENT[:3:-1]


@pytest.fixture(autouse=True)
def cache_and_small_chunks(no_outside_settings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10_000)  # what a broken connection loses


@pytest.fixture
def url(server: FileServer) -> str:
    server.files["/models/weights.hdf5"] = CONTENT
    return server.address + "/models/weights.hdf5"


def message_of(url: str, **options: object) -> str:
    with pytest.raises(CheckpointError) as caught:
        fetch_url(url, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_in(cache: Path) -> set[str]:
    """What the cache holds besides its locks."""
    return {path.name for path in cache.rglob("*") if path.is_file() and path.parent.name != "locks"}


def start_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output.strip()


# Where the cache is


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ELMO_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "modern-elmo"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "modern-elmo"
    monkeypatch.setenv("ELMO_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


# The ordinary way


def test_a_file_is_downloaded_once(server: FileServer, url: str, tmp_path: Path) -> None:
    path = fetch_url(url)
    assert path.read_bytes() == CONTENT
    assert path.name == "weights.hdf5"
    assert fetch_url(url) == path
    assert len(server.requests) == 1
    assert files_in(tmp_path) == {"weights.hdf5"}


def test_addresses_with_the_same_file_name_do_not_collide(server: FileServer) -> None:
    server.files = {"/a/options.json": b"{a", "/b/options.json": b"{b", "/b/options.json?v=2": b"{c"}
    paths = [fetch_url(server.address + path) for path in server.files]
    assert [path.read_bytes() for path in paths] == [b"{a", b"{b", b"{c"]
    assert {path.name for path in paths} == {"options.json"}


def test_a_folder_brings_files_together(server: FileServer, tmp_path: Path) -> None:
    server.files = {"/a/options.json": b"{", "/b/weights.hdf5": SIGNATURE}
    for path in server.files:
        fetch_url(server.address + path, folder="official/tiny")
    assert files_in(tmp_path / "official" / "tiny") == {"options.json", "weights.hdf5"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "file"),
        ("/a b/мо дель.zip", "мо_дель.zip"),
    ],
    ids=["none", "foreign letters"],
)
def test_file_names_are_safe_and_readable(server: FileServer, tmp_path: Path, path: str, name: str) -> None:
    sent = path.replace(" ", "%20").encode().decode("latin-1")
    quoted = "".join(f"%{ord(letter):02X}" if ord(letter) > 127 else letter for letter in sent)
    server.files[quoted] = b"content"
    actual = fetch_url(server.address + path + "#part")
    assert (actual.name, actual.read_bytes()) == (name, b"content")


def test_redirects_are_followed(server: FileServer, url: str) -> None:
    server.redirects["/latest.hdf5"] = url
    path = fetch_url(server.address + "/latest.hdf5")
    assert (path.name, path.read_bytes()) == ("latest.hdf5", CONTENT)


def test_a_body_without_length_is_taken_to_its_end(server: FileServer, url: str) -> None:
    server.sends_length = False
    assert fetch_url(url).read_bytes() == CONTENT


# Broken connections


def test_a_broken_download_is_resumed(server: FileServer, url: str) -> None:
    server.break_after = [70_000]
    assert f"{url} cannot be downloaded (" in message_of(url)
    assert fetch_url(url).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=70000-"]


def test_without_an_etag_nothing_is_joined(server: FileServer, url: str) -> None:
    server.sends_etag = False
    server.break_after = [70_000]
    assert f"{url} cannot be downloaded (" in message_of(url)
    assert fetch_url(url).read_bytes() == CONTENT
    assert server.ranges == [None, None]


@pytest.mark.parametrize("changed", [OTHER, OTHER[:-5], OTHER[:1000]])
def test_a_changed_file_is_not_joined_to_the_old_beginning(
    server: FileServer, url: str, tmp_path: Path, changed: bytes
) -> None:
    server.break_after = [70_000]
    assert f"{url} cannot be downloaded (" in message_of(url)
    server.files["/models/weights.hdf5"] = changed
    assert fetch_url(url).read_bytes() == changed


def test_a_server_that_ignores_the_range_starts_again(server: FileServer, url: str) -> None:
    server.honours_range = False
    server.break_after = [70_000]
    assert "cannot be downloaded" in message_of(url)
    assert fetch_url(url).read_bytes() == CONTENT


@pytest.mark.needs("SIGKILL")
def test_a_killed_process_is_continued_by_the_next(server: FileServer, url: str, tmp_path: Path) -> None:
    server.stall_after = 200_000
    code = "import sys; from elmo.checkpoint.download import fetch_url\n"
    code += "print(fetch_url(sys.argv[1]))"
    first = start_process(code, url)
    assert server.stalled.wait(60)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    server.stall_after = None
    server.released.set()

    assert Path(finish(start_process(code, url))).read_bytes() == CONTENT
    assert files_in(tmp_path) == {"weights.hdf5"}


def test_two_processes_share_one_download(server: FileServer, url: str) -> None:
    server.stall_after = 200_000
    code = """if True:
        import sys
        from elmo.checkpoint import download
        lock = download.FileLock
        def announce(path):
            if path.parent.name == "locks":
                print("waiting", flush=True)
            return lock(path)
        download.FileLock = announce
        print(download.fetch_url(sys.argv[1]))"""
    first = start_process(code, url)
    assert server.stalled.wait(60)
    second = start_process(code, url)
    assert second.stdout is not None
    assert second.stdout.readline() == "waiting\n"  # it saw no file, and the first has the lock
    server.released.set()
    path = finish(first).removeprefix("waiting\n")
    assert finish(second) == path
    assert Path(path).read_bytes() == CONTENT
    assert len(server.requests) == 1


# Servers that refuse, and no server


@pytest.mark.parametrize("status", [404, 403, 503])
def test_an_http_error_is_reported(server: FileServer, url: str, tmp_path: Path, status: int) -> None:
    server.statuses["/models/weights.hdf5"] = status
    assert f"{url} cannot be downloaded ({status} " in message_of(url)
    assert files_in(tmp_path) == set()


def test_a_refused_connection_is_reported(tmp_path: Path) -> None:
    with FileServer() as gone:
        url = gone.address + "/weights.hdf5"
    assert f"{url} cannot be downloaded (" in message_of(url)


@pytest.mark.parametrize("address", ["ftp://host/x", "file:///etc/hosts", "http:///x", "http://[::1/x", "small"])
def test_only_web_addresses_are_fetched(address: str) -> None:
    assert f"{address!r} is not an http:// or https:// URL" in message_of(address)


def test_a_cache_that_cannot_be_written_is_named(
    server: FileServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("ELMO_CACHE", str(blocked))
    message = message_of(url, folder="models")
    assert message.startswith(f"{blocked / 'models' / 'weights.hdf5'} cannot be read or written: [Errno ")
    assert message.endswith("; free up disk space, or set the environment variable ELMO_CACHE to another cache folder.")
    assert server.requests == []


# Without network


def test_local_files_only_makes_no_request(server: FileServer, url: str, tmp_path: Path) -> None:
    target = tmp_path / "models" / "weights.hdf5"
    assert "but local_files_only is set" in message_of(url, folder="models", local_files_only=True)
    assert server.requests == []
    fetch_url(url, folder="models")
    assert fetch_url(url, folder="models", local_files_only=True) == target
    assert len(server.requests) == 1


def test_a_file_copied_in_by_hand_is_used(url: str, tmp_path: Path) -> None:
    target = tmp_path / "models" / "weights.hdf5"
    target.parent.mkdir()
    target.write_bytes(CONTENT)
    assert fetch_url(url, folder="models", local_files_only=True) == target


# What is accepted


def test_a_wrong_file_is_refused_and_nothing_is_kept(server: FileServer, url: str, tmp_path: Path) -> None:
    server.files["/models/weights.hdf5"] = b"<html>Log in to the network</html>"
    message = message_of(url)
    assert f"{url} is not a .hdf5 file but begins with '<html>Log in to the network</html>'; open" in message
    assert files_in(tmp_path) == set()
    server.files["/models/weights.hdf5"] = CONTENT
    assert fetch_url(url).read_bytes() == CONTENT
