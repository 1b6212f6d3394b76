"""Tutorials of docs/: every block runs and prints the output on the page."""

import importlib.util
import re

import pytest

from .doc_pages import BLOCK, DOCS
from .tutorials import PAGES, TUTORIALS, Page, Step, is_shown, read_steps

NEEDS = {
    "tutorials/task": ["sklearn"],
    "tutorials/distil": ["transformers"],
    "tutorials/serve": ["fastapi", "openai"],
}


@pytest.mark.parametrize("name", PAGES)
def test_every_block_prints_the_output_on_the_page(name, tmp_path, monkeypatch):
    for module in NEEDS.get(name, []):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    num_shown = 0
    for step, printed in Page(name).run():
        if step.shown is not None:
            num_shown += 1
            assert is_shown(step, printed), f"{step.code}prints\n{printed}"
        else:
            assert printed == "", f"{step.code}prints, but the page does not show it:\n{printed}"
    assert num_shown > 2 or name == "index"


def test_all_tutorials_are_run():
    pages = {page.stem for page in (DOCS / "tutorials").glob("*.md") if "." not in page.stem}
    assert pages == {*TUTORIALS, "index"}


@pytest.mark.parametrize("name", PAGES)
def test_both_languages_show_the_same_code(name):
    english, chinese = (
        [(found["info"], found["code"]) for found in BLOCK.finditer((DOCS / file).read_text(encoding="utf-8"))]
        for file in (f"{name}.md", f"{name}.zh.md")
    )
    assert english == chinese


def test_numbers_may_differ_if_the_page_allows_it():
    exact, approximate = (Step("python", "", "0.79 of 3: x2\n", is_approximate) for is_approximate in (False, True))
    assert is_shown(exact, "0.79 of 3: x2\n") and not is_shown(exact, "0.80 of 3: x2\n")
    assert is_shown(approximate, "0.81 of 3: x2\n")
    assert not is_shown(approximate, "0.81 out of 3: x2\n") and not is_shown(approximate, "nan of 3: x2\n")
    assert is_shown(Step("python", "", "a … b\n"), "a 12 b\n")


def test_outputs_belong_to_the_block_above():
    text = "```python\nprint(1)\n```\n\n```output\n1\n```\n\n<!-- test: assert True -->\n\n```bash skip\nno\n```\n"
    assert read_steps(text) == [Step("python", "print(1)\n", "1\n"), Step("test", "assert True")]


def test_no_hidden_test_is_lost():
    for name in PAGES:
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        kinds = [step.kind for step in read_steps(text)]
        assert kinds.count("test") == len(re.findall("<!-- test:", text))
