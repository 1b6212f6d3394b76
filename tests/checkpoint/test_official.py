import json
from pathlib import Path

import h5py
import pytest

from elmo.checkpoint.source import BASE_ADDRESS, OFFICIAL, fetch_official, official_alias_of
from elmo.errors import CheckpointError

from .file_server import FileServer


def options_of(alias: str, **changes: int) -> bytes:
    return json.dumps({"alias": alias, **changes}).encode()


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as file:
        file["char_embed"] = [[1.0, 2.0]]
    return path.read_bytes()


@pytest.fixture
def mirror(server: FileServer, weights: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    for alias, (options_path, weights_path) in OFFICIAL.items():
        server.files[f"/elmo/{options_path}"] = options_of(alias)
        server.files[f"/elmo/{weights_path}"] = weights
    monkeypatch.setenv("ELMO_MIRROR", server.address + "/elmo")
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return server


def test_the_published_addresses_are_known() -> None:
    assert list(OFFICIAL) == ["small", "medium", "original", "original-5.5b"]
    assert BASE_ADDRESS + OFFICIAL["original-5.5b"][1] == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )


@pytest.mark.parametrize("alias", OFFICIAL)
def test_both_files_land_in_one_folder(mirror: FileServer, weights: bytes, tmp_path: Path, alias: str) -> None:
    folder = fetch_official(alias)
    assert folder == tmp_path / "cache" / "official" / alias
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        Path(OFFICIAL[alias][0]).name: options_of(alias),
        Path(OFFICIAL[alias][1]).name: weights,
    }
    assert len(mirror.requests) == 2
    assert fetch_official(alias, local_files_only=True) == folder
    assert len(mirror.requests) == 2


def test_local_files_only_names_the_missing_model(mirror: FileServer, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is not in the cache .* but local_files_only is set"):
        fetch_official("small", local_files_only=True)
    assert mirror.requests == []


@pytest.mark.parametrize(
    ("index", "content"),
    [(0, b"<html>Log in</html>"), (0, b"[1]"), (0, b"[" * 100_000), (1, b"<html>Log in</html>")],
)
def test_a_wrong_file_is_refused(mirror: FileServer, tmp_path: Path, index: int, content: bytes) -> None:
    place = "/elmo/" + OFFICIAL["small"][index]
    mirror.files[place] = content
    with pytest.raises(CheckpointError) as caught:
        fetch_official("small")
    assert f"{mirror.address}{place} is not a .{'json' if index == 0 else 'hdf5'} file but begins with" in str(
        caught.value
    )
    assert not list(tmp_path.rglob("*.partial*"))
    assert not (tmp_path / "cache" / "official" / "small" / Path(place).name).exists()


@pytest.mark.parametrize("alias", OFFICIAL)
@pytest.mark.parametrize(
    "base",
    [
        BASE_ADDRESS,
        BASE_ADDRESS.replace("https", "http"),
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/",
    ],
)
def test_public_addresses_have_an_alias(base: str, alias: str) -> None:
    for path in OFFICIAL[alias]:
        assert official_alias_of(base + path) == alias


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("end", ["", "/", "?tf-hub-format=compressed"])
def test_the_tfhub_module_is_the_original_model(version: int, end: str) -> None:
    assert official_alias_of(f"https://tfhub.dev/google/elmo/{version}{end}") == "original"


@pytest.mark.parametrize(
    "url",
    [
        "https://tfhub.dev/google/elmo/4",
        "https://example.org/models/elmo/" + OFFICIAL["small"][0],
        BASE_ADDRESS + "2x1024_128_2048cnn_1xhighway/other.hdf5",
        BASE_ADDRESS + "contributed/pt/elmo_pt_weights.hdf5",
        "ftp://tfhub.dev/google/elmo/2",
        "http://[::1/x",
        "small",
    ],
)
def test_other_addresses_have_none(url: str) -> None:
    assert official_alias_of(url) is None
