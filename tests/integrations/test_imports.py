"""Integrations are only imported when used."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = ("sklearn", "spacy", "transformers", "sentence_transformers", "flair", "onnx", "gensim")


def test_importing_the_package_and_opening_a_model_imports_no_library(model_folder):
    code = f"""
import sys
import elmo, elmo.integrations
elmo.Elmo.from_pretrained({str(model_folder)!r}).embed("the bank")
print([name for name in {LIBRARIES} if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_base_install_has_none_of_them():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    base = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)[1]
    required = re.findall(r'"([\w-]+)', base)
    assert "numpy" in required
    others = {"torch", "scikit-learn", "spacy", "transformers", "sentence-transformers", "flair", "onnx"}
    assert not others & {*required}


@pytest.mark.parametrize("name", ["sklearn", "spacy", "transformers", "sentence_transformers", "flair"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch, name):
    module = f"elmo.integrations.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    for loaded in [key for key in sys.modules if key.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    for inner in (name, "srsly"):
        monkeypatch.setitem(sys.modules, inner, None)
    with pytest.raises(ImportError, match=rf"{module} needs the package .* pip install .*\[{name}\]"):
        importlib.import_module(module)
