"""Settings from flags or environment variables, and names of models."""

import socket

import numpy as np
import pytest

from elmo.errors import ConfigError
from elmo.serve.page_folder import shrink
from elmo.serve.served import open_served, split_name
from elmo.serve.server import bind
from elmo.serve.settings import Settings, read_settings
from elmo.tasks import load


def set_variables(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_flags_take_precedence_over_the_environment(monkeypatch):
    variables = {
        "ELMO_SERVE_PORT": "9000",
        "ELMO_SERVE_MODELS": "one 'a folder/two'",
        "ELMO_SERVE_MAX_SECONDS": "5",
        "ELMO_SERVE_LOCAL_FILES_ONLY": "1",
        "ELMO_SERVE_THREADS": "2",
    }
    set_variables(monkeypatch, variables)
    settings = read_settings(port=9001)
    assert (settings.port, settings.models, settings.max_seconds) == (9001, ("one", "a folder/two"), 5.0)
    assert settings.host == "127.0.0.1" and settings.local_files_only is True and settings.threads == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("port", "many", "port is 'many'"),
        ("threads", "x", "threads is 'x'"),
        ("max_seconds", "x", "max_seconds is 'x'"),
        ("local_files_only", "maybe", "local_files_only is 'maybe'"),
        ("models", "'", 'models is "\'"'),
    ],
)
def test_an_invalid_variable_is_named(monkeypatch, name, text, message):
    monkeypatch.setenv(f"ELMO_SERVE_{name.upper()}", text)
    with pytest.raises(ConfigError, match="ELMO_SERVE_… in the environment") as error:
        read_settings()
    assert message in str(error.value)


def test_the_key_is_never_shown():
    assert "secret" not in repr(Settings(api_key="secret"))
    with pytest.raises(ConfigError) as error:
        read_settings(api_key="secret with spaces")
    assert "secret" not in str(error.value) and "api_key is invalid: it is empty, or has spaces" in str(error.value)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("my-model", ("my-model", "my-model")),
        ("a/folder/model.hdf5", ("model.hdf5", "a/folder/model.hdf5")),
        ("en=a/folder", ("en", "a/folder")),
        ("a/b=c", ("b=c", "a/b=c")),
        ("", ("", "")),
    ],
)
def test_names_of_served_models(entry, expected):
    assert split_name(entry) == expected


def test_served_models_are_opened_and_named(language_folder):
    served = open_served(Settings(models=(str(language_folder), f"second={language_folder}"), threads=1))
    assert list(served.models) == ["language", "second"]
    assert served.model(None) is served.models["language"]
    assert served.model("default") is served.models["language"]
    assert served.model(str(language_folder)) is served.models["language"]
    with pytest.raises(ConfigError, match="Two models would have the name 'language'"):
        open_served(Settings(models=(str(language_folder), str(language_folder)), threads=1))


def test_a_task_shares_the_served_model_it_was_trained_with(language_folder, tagger):
    served = open_served(Settings(models=(str(language_folder),), tasks=(str(tagger),), threads=1))
    task = served.tasks["places"]
    assert task.predict([["Rome"]]) == load(tagger).predict([["Rome"]])


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
def test_without_models_the_language_of_the_text_chooses_between_the_two_of_the_package():
    from fastapi.testclient import TestClient

    from elmo.serve.app import create_app

    settings = Settings(threads=1)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        assert [model["name"] for model in client.get("/models").json()["models"]] == ["en-small", "zh-small"]

        def model_of(path, **body):
            response = client.post(path, json=body)
            assert response.status_code == 200, response.text
            return response.json()["model"]

        english, chinese, mixed = "I went to the bank", "我去银行存钱", "我用 Kubernetes 部署服务"
        for text, expected in (
            (english, "en-small"),
            (chinese, "zh-small"),
            (mixed, "zh-small"),
            ("", "en-small"),
        ):
            assert model_of("/v1/embeddings", input=text) == expected
            assert model_of("/embed", sentences=[text]) == expected
            assert model_of("/embed", sentences=[text.split()]) == expected
        assert model_of("/similarity", sentence_a="我去[银行]", sentence_b="[河岸]") == "zh-small"
        assert model_of("/score", sentences=[chinese]) == "zh-small"
        assert model_of("/substitutes", sentence="我去[银]行") == "zh-small"
        assert model_of("/embed", sentences=chinese, model="en-small") == "en-small"
        assert model_of("/embed", sentences=chinese, model="default") == "en-small"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no dual-stack sockets")
def test_two_colons_accept_ipv4_too():
    with bind(Settings(host="::", port=0)) as listener:
        socket.create_connection(("127.0.0.1", listener.getsockname()[1]), 5).close()


def test_a_page_keeps_numbers_that_float16_cannot_hold():
    small, large = np.array([1.5], np.float32), np.array([7e4], np.float32)
    assert shrink("bias", small)["bias"].dtype == np.float16
    assert shrink("bias", large)["bias"] == large
