"""Public names are listed once, in stub files, and loaded on first use."""

import importlib
import pkgutil

import pytest

import elmo

PACKAGES = ["elmo", "elmo.analysis", "elmo.vectors"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_loaded_and_is_listed(package):
    module = importlib.import_module(package)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_function_is_hidden_by_a_module_of_its_name(package):
    module = importlib.import_module(package)
    modules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    for name in modules & set(module.__all__):
        assert getattr(module, name) is importlib.import_module(f"{package}.{name}"), name


def test_a_misspelled_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'elmo' has no attribute 'Elmoo'"):
        elmo.Elmoo  # noqa: B018
