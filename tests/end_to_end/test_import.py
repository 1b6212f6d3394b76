"""Importing the package does not import torch or other heavy packages."""

import subprocess
import sys

from elmo.checkpoint.formats.hdf5 import write_hdf5

HEAVY = ("torch", "h5py", "huggingface_hub", "tokenizers", "sentencex", "rich", "click", "numpy")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_imports_nothing_heavy():
    loaded = run(f"import sys, elmo; print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded.strip() == "[]"


def test_importing_the_facade_leaves_optional_packages_alone():
    code = "import sys; from elmo import Elmo, ElmoLayer; print([n for n in {} if n in sys.modules])"
    assert run(code.format(("h5py", "huggingface_hub", "tokenizers", "sentencex", "rich", "click"))).strip() == "[]"


def test_importing_sets_no_logging_and_starts_no_thread():
    code = (
        "import logging, threading; before = threading.active_count(); from elmo import Elmo; "
        "print([logging.getLogger(name).handlers for name in (None, 'elmo')], threading.active_count() - before)"
    )
    assert run(code).strip() == "[[], []] 0"


def test_every_public_name_is_there():
    assert run("import elmo; print(all(getattr(elmo, name) for name in elmo.__all__))").strip() == "True"


def test_opening_a_model_does_not_import_the_compiler(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "model")
    write_hdf5(tiny_model.checkpoint(), tmp_path / "hdf5")
    code = f"""
import sys
from elmo import Elmo
for name in ("model", "hdf5"):
    Elmo.from_pretrained("{(tmp_path).as_posix()}/" + name).embed("I went to the bank")
print("torch._dynamo" in sys.modules)
"""
    assert run(code).strip() == "False"


def test_dir_lists_the_public_names():
    import elmo

    public = [name for name in dir(elmo) if not name.startswith("__")]
    assert public == sorted(set(elmo.__all__) - {"__version__"})
    assert {"Elmo", "ElmoLayer", "ScalarMix", "analysis", "tasks"} <= set(public)
    assert [name for name in dir(elmo.vectors) if not name.startswith("__")] == sorted(elmo.vectors.__all__)
