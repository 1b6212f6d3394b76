"""Tiny seeded models made in memory, and the folder of original vectors if it exists."""

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Products of tiny models are done before a second thread has woken up; on a busy machine it wakes up late.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ELMO_LANG"] = "en"  # whatever the locale of this machine

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell that runs the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

from elmo import Elmo, InputError
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig
from elmo.kernels.library import VARIABLE, find_kernels

TINY_CONFIG = ModelConfig(
    encoder=EncoderConfig(num_layers=2, cell_dim=12, output_dim=6),
    characters=CharacterConfig(filters=((1, 3), (2, 4), (3, 5)), embedding_dim=4, num_highways=1),
)


def refused(message: str) -> Any:
    """Expect an InputError whose message begins with this text."""
    return pytest.raises(InputError, match=f"^{re.escape(message)}")


# What tests may need of the system, by the name in their mark `needs`; Windows lacks all of it, macOS some.
_HAS = {
    "resource": sys.platform != "win32" and importlib.util.find_spec("resource") is not None,
    "fork": hasattr(os, "fork"),
    "mkfifo": hasattr(os, "mkfifo"),
    "SIGKILL": hasattr(signal, "SIGKILL"),
    "/proc": sys.platform == "linux",
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose system lacks what it needs."""
    for name in (name for mark in item.iter_markers("needs") for name in mark.args):
        if not _HAS[name]:
            pytest.skip(f"this system has no {name}")


def list_variants() -> list[str]:
    """Name the compiled variants that this processor runs; none where the library was not built."""
    best = find_kernels().library
    return [] if best is None else list(best.variants)


@pytest.fixture
def on_progress(monkeypatch) -> Callable[[Callable[[int, int], object]], None]:
    """A function that sets what is called with the words and bytes of each step of writing a resumable folder."""

    def watch(callback: Callable[[int, int], object]) -> None:
        @contextmanager
        def progress_bar(**options: object) -> Iterator[Callable[[int, int], object]]:
            yield lambda size, num_pieces=1: callback(num_pieces, size)

        monkeypatch.setattr("elmo.files.work_folder.progress_bar", progress_bar)

    return watch


@pytest.fixture(params=["off", *list_variants()])
def kernels(request, monkeypatch) -> str:
    """NumPy, then each compiled variant of the kernels."""
    monkeypatch.setenv(VARIABLE, request.param)
    return request.param


@pytest.fixture(autouse=True, scope="session")
def float32_for_unknown_models() -> Iterator[None]:
    """Let precision="auto" take float32 for models that are not packaged, so that vectors can be compared.

    For the whole session, so that models which several tests share are opened in float32 too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmo.model.int8_preserves_vectors", lambda checkpoint, indexer: False)
        yield


@pytest.fixture(scope="session")
def tiny_model() -> Elmo:
    """A random model that must not be changed by a test."""
    return Elmo.from_config(TINY_CONFIG)


@pytest.fixture
def own_model() -> Elmo:
    """A random model of the test's own, to be trained or changed."""
    return Elmo.from_config(TINY_CONFIG)


@pytest.fixture(scope="session")
def original_vectors() -> Path:
    """The folder of small original models with the vectors their own programs gave."""
    folder = Path(__file__).parents[2] / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip("the original programs' vectors (shared/fixtures beside the project) are not here")
    return folder


@pytest.fixture(scope="session")
def topics_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus of two topics, money and rivers."""
    from tests.two_topics import prepare_topics

    return prepare_topics(tmp_path_factory.mktemp("topics"))


@pytest.fixture(scope="session")
def fused_model(tiny_model: Elmo, topics_corpus: Path) -> Elmo:
    """The random model with a context layer of that corpus; it must not be changed by a test."""
    from elmo import fuse

    return fuse(tiny_model, topics_corpus, dim=4, focus=2.0, decay=0.0)


@pytest.fixture(scope="session")
def language_model() -> Elmo:
    """A random model that predicts words, not to be changed."""
    from tests.language_models import make_language_model  # which imports this module

    return make_language_model()


@pytest.fixture(scope="session")
def language_folder(language_model: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "language"
    language_model.save_pretrained(folder)
    return folder
