"""Every test calls the Hub in its own process, because its library reads HF_ENDPOINT on import."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .fake_hub import FakeHub

CHILD = """
import json, sys
from pathlib import Path
from elmo.checkpoint.source import fetch_from_hub, push_folder
from elmo.errors import CheckpointError
for name, arguments in json.loads(sys.argv[1]):
    if "folder" in arguments:
        arguments["folder"] = Path(arguments["folder"])
    try:
        print(json.dumps({"value": str({"fetch": fetch_from_hub, "push": push_folder}[name](**arguments))}))
    except CheckpointError as error:
        print(json.dumps({"error": str(error), "cause": type(error.__cause__).__name__}))
"""
MODEL = {
    "config.json": b'{"format": "elmo"}',
    "weights.safetensors": bytes(range(256)) * 40,
    "vocabulary.txt": "<S>\n</S>\n<UNK>\nthé\n".encode(),
    "README.md": b"# A model\n",
}


def run_calls(address: str, home: Path, *calls: tuple[str, dict[str, Any]], **env: str) -> list[dict[str, str]]:
    settings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",  # its storage protocol is not one of the few endpoints
        "NO_PROXY": "127.0.0.1",
        **env,
    }
    settings.pop("HF_TOKEN", None)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(calls)],
        env=settings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    for name, content in MODEL.items():
        (made / name).write_bytes(content)
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_pushing_then_fetching_gives_the_same_bytes(hub: FakeHub, folder: Path, tmp_path: Path) -> None:
    pushed, fetched, local = run_calls(
        hub.address,
        tmp_path / "home",
        ("push", {"folder": str(folder), "repo_id": "me/tiny", "private": True, "token": "right"}),
        ("fetch", {"repo_id": "me/tiny"}),
        ("fetch", {"repo_id": "me/tiny", "local_files_only": True}),
    )
    assert pushed == {"value": f"{hub.address}/me/tiny"}
    assert contents(Path(fetched["value"])) == MODEL
    assert Path(fetched["value"]).is_relative_to(tmp_path / "home")  # the hub's own cache
    assert local == fetched
    assert hub.commits == ["Upload an ELMo model"]
    assert hub.visibility["me/tiny"] in (
        "private",
        True,
    )  # as newer and older releases of the hub library ask for it


def test_only_model_files_at_the_top_are_fetched(hub: FakeHub, tmp_path: Path) -> None:
    wanted = {
        "options.json": b"{}",
        "model.hdf5": b"h",
        "vocab.txt.gz": b"z",
        "encoder.pkl": b"p",
        "char.dic": b"c",
    }
    hub.repos["you/mixed"] = {**wanted, "training/state.json": b"{}", "corpus.txt": b"x", "run.py": b"x"}
    hub.repos["you/empty"] = {"corpus.txt": b"x"}
    fetched, empty = run_calls(
        hub.address,
        tmp_path / "home",
        ("fetch", {"repo_id": "you/mixed"}),
        ("fetch", {"repo_id": "you/empty"}),
    )
    assert contents(Path(fetched["value"])) == wanted
    assert "'you/empty' has no model files at its top level" in empty["error"]


def test_hub_errors_are_one_sentence(hub: FakeHub, tmp_path: Path) -> None:
    hub.repos["you/model"] = {"config.json": b"{}"}
    hub.gated.add("you/gated")
    hub.failing.add("you/broken")
    answers = run_calls(
        hub.address,
        tmp_path / "home",
        ("fetch", {"repo_id": "nobody/nothing"}),
        ("fetch", {"repo_id": "you/gated"}),
        ("fetch", {"repo_id": "you/model", "revision": "v9"}),
        ("fetch", {"repo_id": "a/b/c"}),
        ("fetch", {"repo_id": "you/broken"}),
    )
    for name, answer in zip(("nobody/nothing", "you/gated", "you/model", "a/b/c"), answers, strict=False):
        assert f"The hub repository {name!r}" in answer["error"] and "cannot be downloaded (" in answer["error"]
    assert "at revision 'v9'" in answers[2]["error"] and "'repo_name' or 'namespace/repo_name'" in answers[3]["error"]
    broken = answers[4]["error"]
    assert "The hub repository 'you/broken' cannot be downloaded (" in broken
    assert "503 " in broken and "Service Unavailable" in broken
    assert "\n" not in broken


def test_local_files_only_asks_nobody(hub: FakeHub, tmp_path: Path) -> None:
    hub.repos["you/model"] = {"config.json": b"{}"}
    arguments = {"repo_id": "you/model", "local_files_only": True}
    (answer,) = run_calls(hub.address, tmp_path / "home", ("fetch", arguments))
    assert "allow the download once" in answer["error"]
    assert hub.requests == []


def test_an_unreachable_hub_is_an_error_unless_the_model_is_cached(hub: FakeHub, tmp_path: Path) -> None:
    hub.repos["you/model"] = {"config.json": b"{}"}
    (fetched,) = run_calls(hub.address, tmp_path / "home", ("fetch", {"repo_id": "you/model"}))
    cached, missing = run_calls(
        hub.address,
        tmp_path / "home",
        ("fetch", {"repo_id": "you/model"}),
        ("fetch", {"repo_id": "you/other"}),
        HF_HUB_OFFLINE="1",
    )
    assert cached == fetched
    assert "The hub repository 'you/other' cannot be downloaded (" in missing["error"]


def test_push_errors_name_the_fix(hub: FakeHub, folder: Path, tmp_path: Path) -> None:
    hub.needs_token = True
    refused, badly_named = run_calls(
        hub.address,
        tmp_path / "home",
        ("push", {"folder": str(folder), "repo_id": "me/tiny", "token": "wrong"}),
        ("push", {"folder": str(folder), "repo_id": "me/ti/ny", "token": "right"}),
    )
    assert "'me/tiny' (401" in refused["error"] and "token with write access" in refused["error"]
    assert "'me/ti/ny'" in badly_named["error"] and "check its name ('owner/model')" in badly_named["error"]


def test_a_push_without_a_hub_names_folder_and_repository(folder: Path, tmp_path: Path) -> None:
    with FakeHub() as gone:
        address = gone.address
    arguments = {"folder": str(folder), "repo_id": "me/tiny", "token": "right"}
    (answer,) = run_calls(address, tmp_path / "home", ("push", arguments))
    assert answer["error"].startswith("The model cannot be uploaded to the hub repository 'me/tiny' (")
