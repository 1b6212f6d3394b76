import json
from pathlib import Path

import h5py
import pytest

from elmo.checkpoint.source import BASE_ADDRESS, OFFICIAL, OfficialModel, fetch_official, official_alias_of
from elmo.errors import CheckpointError

from .file_server import FileServer


def options_of(model: OfficialModel, **changes: int) -> bytes:
    return json.dumps({"stem": model.stem, **changes}).encode()


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    path = tmp_path / "made.hdf5"
    with h5py.File(path, "w") as file:
        file["char_embed"] = [[1.0, 2.0]]
    return path.read_bytes()


@pytest.fixture
def mirror(server: FileServer, weights: bytes, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    for model in OFFICIAL.values():
        server.files[f"/elmo/{model.options_path}"] = options_of(model)
        server.files[f"/elmo/{model.weights_path}"] = weights
    monkeypatch.setenv("ELMO_MIRROR", server.address + "/elmo")
    return server


def test_the_published_addresses_are_known() -> None:
    assert list(OFFICIAL) == ["small", "medium", "original", "original-5.5b"]
    assert BASE_ADDRESS + OFFICIAL["original-5.5b"].weights_path == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )


@pytest.mark.parametrize("alias", OFFICIAL)
def test_both_files_land_in_one_folder(mirror: FileServer, weights: bytes, tmp_path: Path, alias: str) -> None:
    folder = fetch_official(alias, cache=tmp_path / "cache")
    assert folder == tmp_path / "cache" / "official" / alias
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        f"elmo_{OFFICIAL[alias].stem}_options.json": options_of(OFFICIAL[alias]),
        f"elmo_{OFFICIAL[alias].stem}_weights.hdf5": weights,
    }
    assert len(mirror.requests) == 2
    assert fetch_official(alias, cache=tmp_path / "cache", local_files_only=True) == folder
    assert len(mirror.requests) == 2


def test_the_default_cache_is_used(mirror: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "mine"))
    assert fetch_official("small") == tmp_path / "mine" / "official" / "small"


def test_another_mirror_must_send_the_same_file(
    mirror: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch_official("small", cache=tmp_path)
    next(folder.glob("*options.json")).unlink()
    mirror.files[f"/other/{OFFICIAL['small'].options_path}"] = options_of(OFFICIAL["small"], cell_clip=9)
    monkeypatch.setenv("ELMO_MIRROR", mirror.address + "/other/")
    with pytest.raises(CheckpointError, match="now sends a file with sha256"):
        fetch_official("small", cache=tmp_path)


def test_local_files_only_says_what_is_missing(mirror: FileServer, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is not in the cache .* and local_files_only forbids"):
        fetch_official("small", cache=tmp_path, local_files_only=True)
    assert mirror.requests == []


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("options_path", b"<html>Log in</html>", "it is not a JSON object but begins with '<html>Log in</html>'"),
        ("options_path", b"[1]", "it is not a JSON object but begins with '[1]'"),
        ("options_path", b"[" * 100_000, f"it is not a JSON object but begins with '{'[' * 40}'"),
        (
            "weights_path",
            b"<html>Log in</html>",
            "it is not an HDF5 file but begins with '<html>Log in</html>'",
        ),
    ],
)
def test_a_wrong_file_is_refused(mirror: FileServer, tmp_path: Path, path: str, content: bytes, problem: str) -> None:
    place = "/elmo/" + getattr(OFFICIAL["small"], path)
    mirror.files[place] = content
    with pytest.raises(CheckpointError) as caught:
        fetch_official("small", cache=tmp_path)
    assert f"{mirror.address}{place} did not send the expected file: {problem};" in str(caught.value)
    assert not list(tmp_path.rglob("*.partial*"))
    assert not (tmp_path / "official" / "small" / Path(place).name).exists()


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
    assert official_alias_of(base + OFFICIAL[alias].options_path) == alias
    assert official_alias_of(base + OFFICIAL[alias].weights_path) == alias


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("end", ["", "/", "?tf-hub-format=compressed"])
def test_the_tfhub_module_is_the_original_model(version: int, end: str) -> None:
    assert official_alias_of(f"https://tfhub.dev/google/elmo/{version}{end}") == "original"


@pytest.mark.parametrize(
    "url",
    [
        "https://tfhub.dev/google/elmo/4",
        "https://example.org/models/elmo/" + OFFICIAL["small"].options_path,
        BASE_ADDRESS + "2x1024_128_2048cnn_1xhighway/other.hdf5",
        BASE_ADDRESS + "contributed/pt/elmo_pt_weights.hdf5",
        "ftp://tfhub.dev/google/elmo/2",
        "http://[::1/x",
        "small",
    ],
)
def test_other_addresses_have_none(url: str) -> None:
    assert official_alias_of(url) is None
