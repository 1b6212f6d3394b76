"""Settings come from flags or the environment; what is served has names."""

import os

import pytest

from elmo.errors import ConfigError
from elmo.serve.served import open_served, split_name
from elmo.serve.settings import Settings, read_settings, variable_of
from elmo.tasks import load


def test_flags_count_more_than_the_environment():
    environment = {
        "ELMO_SERVE_PORT": "9000",
        "ELMO_SERVE_MODELS": "one 'a folder/two'",
        "ELMO_SERVE_MAX_SECONDS": "5",
    }
    settings = read_settings(environment, {"port": 9001, "host": None})
    assert (settings.port, settings.models, settings.max_seconds) == (9001, ("one", "a folder/two"), 5.0)
    assert settings.host == "127.0.0.1"


def test_settings_survive_the_way_to_another_process():
    settings = Settings(
        models=("a b", "x=y"), tasks=("t",), local_files_only=True, max_seconds=1.5, threads=2, api_key="k",
        cors_origins=("https://example.org",),
    )  # fmt: skip
    assert read_settings(settings.to_environment()) == settings
    assert read_settings(Settings().to_environment()) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("port", "many", "ELMO_SERVE_PORT is 'many'; give a whole number."),
        ("threads", "x", "ELMO_SERVE_THREADS is 'x'; give a whole number."),
        ("max_seconds", "x", "ELMO_SERVE_MAX_SECONDS is 'x'; give a number."),
        ("local_files_only", "maybe", "ELMO_SERVE_LOCAL_FILES_ONLY is 'maybe'; give 1 or 0."),
        ("models", "'", 'ELMO_SERVE_MODELS is "\'"; give names as a shell reads them.'),
    ],
)
def test_a_wrong_variable_is_named(name, text, message):
    with pytest.raises(ConfigError) as error:
        read_settings({variable_of(name): text})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("my-model", ("my-model", "my-model")),
        ("a/folder/model.hdf5", ("model", "a/folder/model.hdf5")),
        ("en=a/folder", ("en", "a/folder")),
        ("a/b=c", ("b=c", "a/b=c")),
        ("", ("", "")),
    ],
)
def test_names_of_what_is_served(given, expected):
    assert split_name(given) == expected


def test_what_is_served_is_opened_and_named(language_folder):
    served = open_served(Settings(models=(str(language_folder), f"second={language_folder}"), threads=1))
    assert list(served.models) == ["tiny", "second"]
    assert served.model(None) is served.models["tiny"]
    assert served.model("default") is served.models["tiny"]
    assert served.model(str(language_folder)) is served.models["tiny"]
    with pytest.raises(ConfigError, match="Two models would have the name 'tiny'"):
        open_served(Settings(models=(str(language_folder), str(language_folder)), threads=1))


def test_an_index_of_another_model_is_refused(language_folder, tiny_model, tmp_path):
    pytest.importorskip("faiss")
    from elmo.analysis import build_index

    (tmp_path / "text.txt").write_text("the bank of the river\n")
    build_index(tiny_model, tmp_path / "index", [str(tmp_path / "text.txt")])
    with pytest.raises(ConfigError, match="was made with another model than those served"):
        open_served(Settings(models=(str(language_folder),), indexes=(str(tmp_path / "index"),), threads=1))


def test_the_key_comes_from_a_file(tmp_path):
    path = tmp_path / "key"
    path.write_text("secret\n")
    assert Settings(api_key_file=os.fspath(path)).read_api_key() == "secret"
    for wrong in (b"two words\n", b"\xff\xfekey\n"):
        path.write_bytes(wrong)
        with pytest.raises(ConfigError, match="holds no key"):
            Settings(api_key_file=os.fspath(path)).read_api_key()


def test_a_task_shares_the_served_model_it_was_trained_with(language_folder, tagger):
    served = open_served(Settings(models=(str(language_folder),), tasks=(str(tagger),), threads=1))
    task, model = served.tasks["places"], served.models["tiny"].elmo
    assert task._layers._model is model
    assert task.predict([["Rome"]]) == load(tagger).predict([["Rome"]])
