"""docs/serve.md documents every route, option, code and counter."""

import re
from dataclasses import fields
from pathlib import Path

from prometheus_client import CollectorRegistry

from elmo.serve.middleware import Metrics
from elmo.serve.settings import Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
FLAGS = {"tasks": "--task", "cors_origins": "--cors-origin", "models": "elmo serve my-model",
         "allowed_hosts": "--allowed-host", "api_key": "ELMO_SERVE_API_KEY"}  # fmt: skip
OF_ALL_COMMANDS = ("precision", "device", "local_files_only")  # documented in docs/cli.md


def test_every_option_is_documented():
    for name in (field.name for field in fields(Settings)):
        if name not in OF_ALL_COMMANDS:
            assert FLAGS.get(name, f"--{name.replace('_', '-')}") in PAGE, name


def test_limits_are_documented_with_their_defaults():
    defaults = Settings()
    rows = re.findall(r"^\| (`--[^|]+) \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
    documented = {}
    for names, values in rows:
        documented.update(zip(re.findall(r"`--([\w-]+)`", names), values.strip().split(", "), strict=True))
    documented["max-body-bytes"] = {"4 MiB": str(4 * 2**20)}[documented["max-body-bytes"]]
    assert {name: float(value) for name, value in documented.items()} == {
        name: float(getattr(defaults, name.replace("-", "_"))) for name in documented
    }
    assert len(documented) == 7


def test_every_code_is_documented():
    source = "".join(path.read_text() for path in (ROOT / "src/elmo/serve").glob("*.py"))
    codes = set(re.findall(r'ApiError\(\s*\d{3},\s*"(\w+)"', source))
    codes -= {"failed", "not_alive"}
    assert codes and not {code for code in codes if f"`{code}`" not in PAGE}


def test_every_counter_is_documented():
    metrics = Metrics()
    assert isinstance(metrics.registry, CollectorRegistry)
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{name}`" in PAGE, name


def test_every_route_is_documented(client):
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"`{path}`" in PAGE, path
