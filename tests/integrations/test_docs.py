"""docs/integrations: the Python code of every page runs with the default model."""

import re
from pathlib import Path

import pytest

from .toys import needs

DOCS = Path(__file__).parents[2] / "docs" / "integrations"
PAGES = {
    "scikit-learn": ("sklearn",),
    "spacy": ("spacy",),
    "transformers": ("transformers", "accelerate"),
    "sentence-transformers": ("sentence_transformers",),
    "flair": ("flair",),
}


def run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, f"{page}.md", "exec"), names)
    return names


@pytest.mark.parametrize("page", [pytest.param(page, marks=needs(*used)) for page, used in PAGES.items()])
def test_the_example_of_the_page_runs(page, tmp_path, monkeypatch):
    if page == "spacy":
        import elmo.integrations.spacy  # noqa: F401  # the entry points have a test of their own
    names = run(page, tmp_path, monkeypatch)
    if page == "scikit-learn":
        assert list(names["predictions"]) == ["finance", "nature"]
    elif page == "spacy":
        assert names["river"][4].text == names["money"][6].text == "bank" and names["similarity"] < 0.8
    elif page == "transformers":
        assert (tmp_path / "tagger" / "model.safetensors").is_file()
    elif page == "sentence-transformers":
        assert names["loaded"].encode(["The river is deep"])[0] == pytest.approx(names["vectors"][1], abs=1e-5)
    else:
        assert names["vector"].shape == (512,)
