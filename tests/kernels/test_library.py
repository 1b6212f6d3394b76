"""Selection of kernels, and the fallback without them."""

import contextlib
import logging
import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

from elmo import Elmo
from elmo.errors import ConfigError
from elmo.kernels import library
from tests.conftest import TINY_CONFIG, list_variants

SENTENCES = [["one", "two", "three"], ["four"]]


def test_an_unknown_wish_is_refused(monkeypatch):
    monkeypatch.setenv("ELMO_KERNELS", "sse9")
    with pytest.raises(ConfigError, match="ELMO_KERNELS is 'sse9'"):
        library.find_kernels()


def test_a_variant_that_this_processor_lacks_is_refused(monkeypatch):
    variants = list_variants()
    if not variants:
        pytest.skip("the library was not built")
    missing = next(name for name in library.VARIANTS if name not in variants)
    monkeypatch.setenv("ELMO_KERNELS", missing)
    with pytest.raises(ConfigError, match=f"'{missing}', but this processor runs {variants[0]}"):
        library.find_kernels()


@contextlib.contextmanager
def changed(monkeypatch, name, value):
    """Change the module for a while; what it has opened is forgotten before and afterwards."""
    with monkeypatch.context() as patch:
        patch.setattr(library, name, value)
        library._open.cache_clear()
        yield
    library._open.cache_clear()


def test_without_the_library_numpy_is_used_with_a_warning(monkeypatch, tmp_path, caplog):
    expected = Elmo.from_config(TINY_CONFIG).embed(SENTENCES)
    with changed(monkeypatch, "_PATH", tmp_path / "_native.so"), caplog.at_level(logging.WARNING):
        vectors = Elmo.from_config(TINY_CONFIG).embed(SENTENCES)
        assert library.find_library() is None
    assert [record.message for record in caplog.records if "kernels" in record.message] == [
        "The compiled kernels are not available (they were not built, because the installation found no C "
        "compiler); NumPy is used, which is slower."
    ]
    for one, other in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_library_of_other_sources_is_not_used(monkeypatch):
    if not list_variants():
        pytest.skip("the library was not built")
    with changed(monkeypatch, "_ABI", -1):
        selected = library.find_kernels()
    assert selected.library is None
    assert selected.reason == "it was built from other sources; install the package again"


def test_a_library_of_changed_sources_is_not_used(monkeypatch, tmp_path):
    opened = library.find_library()
    if opened is None or not hasattr(library.ctypes.CDLL(str(library._PATH)), "elmo_source_hash"):
        pytest.skip("the library was not built, or does not know its sources")
    (tmp_path / "kernels.c").write_text("changed")
    with changed(monkeypatch, "_SOURCES", tmp_path):
        assert library.find_kernels().library is None


def _embed(queue, model):
    queue.put([array.tolist() for array in model.embed(SENTENCES)])


@pytest.mark.parametrize("method", [pytest.param("fork", marks=pytest.mark.needs("fork")), "spawn"])
def test_forked_and_spawned_processes_give_the_same_vectors(method, own_model):
    expected = [array.tolist() for array in own_model.embed(SENTENCES)]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_embed, args=(queue, own_model))
    process.start()
    assert queue.get(timeout=120) == expected
    process.join()


def test_importing_elmo_opens_no_library():
    code = (
        "import elmo, pathlib\nmaps = pathlib.Path('/proc/self/maps')\n"
        "assert not maps.exists() or '_native' not in maps.read_text()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
