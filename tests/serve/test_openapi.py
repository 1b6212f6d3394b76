"""The OpenAPI document is complete, and requests that follow or violate it never cause a server error."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.serve.conftest import serving, start_process


def test_the_document_names_every_route_and_body(client):
    document = client.get("/openapi.json").json()
    posts = {path for path, verbs in document["paths"].items() if "post" in verbs}
    assert posts == {"/v1/embeddings", "/embed", "/similarity", "/substitutes", "/score", "/senses"}
    text = json.dumps(document)
    for path in posts:
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"]["$ref"].rpartition("/")[2] in document["components"]["schemas"]
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"], reference


def test_the_examples_of_the_document_work(language_model):
    with serving(language_model) as client:
        document = client.get("/openapi.json").json()
        for path, verbs in document["paths"].items():
            if "post" in verbs:
                reference = verbs["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                (example,) = document["components"]["schemas"][reference.rpartition("/")[2]]["examples"]
                assert client.post(path, json=example).status_code == 200, path


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "secret"])
def test_schemathesis_finds_no_failure(language_folder, tagger, tmp_path, key):
    pytest.importorskip("schemathesis")
    program = Path(sys.executable).parent / "schemathesis"
    checks = "not_a_server_error,response_schema_conformance,status_code_conformance"
    checks += "" if key is None else ",ignored_auth"
    variables = {} if key is None else {"ELMO_SERVE_API_KEY": key}
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with start_process(language_folder, "--task", tagger, **variables) as server:
        paths = httpx.get(f"{server.address}openapi.json", timeout=60).json()["paths"]
        assert "/tasks/{name}" in paths
        completed = subprocess.run(
            [program, "run", f"{server.address}openapi.json", "--checks", checks, "--max-examples", "40",
             "--seed", "1", "--phases", "examples,coverage,fuzzing", "--no-color",
             *[option for name, value in headers.items() for option in ("--header", f"{name}: {value}")]],
            capture_output=True, text=True, timeout=280, cwd=tmp_path,
        )  # fmt: skip
        assert completed.returncode == 0, completed.stdout[-6000:] + completed.stderr[-2000:]
        assert httpx.get(f"{server.address}health", timeout=60).status_code == 200
        failures = re.findall(
            r'status="5\d\d"} [1-9]', httpx.get(f"{server.address}metrics", headers=headers, timeout=60).text
        )
        assert not failures
