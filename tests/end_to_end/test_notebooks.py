"""The notebooks run and print their stored outputs, up to numbers."""

import base64
import importlib.util
import json
import re

import pytest

from .notebooks import FOLDER, execute

NAMES = ("chinese", "quickstart", "six_tasks")
MOST_BYTES = 300_000


def list_outputs(cells) -> list[str]:
    """Return what each cell printed, without its numbers, and the kinds of what it shows."""
    outputs = []
    for cell in cells:
        printed: dict[str, str] = {}  # a kernel sends it in pieces of any length
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":
                printed[output["name"]] = printed.get(output["name"], "") + "".join(output["text"])
            else:
                outputs.append(" ".join(sorted(output["data"])))
        outputs += [f"{name}: {re.sub(r'-?[0-9]+([.][0-9]+)?', '#', text)}" for name, text in printed.items()]
    return outputs


def read(name: str):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_stored_with_outputs_and_are_small(name):
    cells = read(name)
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MOST_BYTES
    counts = [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run python -m tests.end_to_end.notebooks"
    pictures = [
        output["data"]["image/png"]
        for cell in cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert pictures and all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    assert not any(line.startswith("stderr") for line in list_outputs(cells))


def test_all_notebooks_are_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("ignore")  # of the kernel's own packages
@pytest.mark.parametrize("name", NAMES)
def test_notebooks_print_their_stored_outputs(name):
    for module in ("nbclient", "ipykernel", "matplotlib", "sklearn"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    cells = execute(FOLDER / f"{name}.ipynb").cells
    found, stored = list_outputs(cells), list_outputs(read(name))
    found = [line for line in found if not line.startswith("stderr: No font")]  # a machine without Chinese fonts
    if name in ("chinese", "quickstart"):  # the words that a model proposes, and its order of texts, are its own
        found, stored = (
            [line for line in lines if "->" not in line and "central" not in line and "银行" not in line]
            for lines in (found, stored)
        )
    assert found == stored
    if name == "six_tasks":
        text = "".join("".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ()))
        scores = [tuple(map(float, pair)) for pair in re.findall(r"(\d+) without ELMo, (\d+) with ELMo", text)]
        assert len(scores) == 6
        assert sum(pair[1] for pair in scores) > sum(pair[0] for pair in scores)
