"""The map in docs/architecture.md shows every file of the library, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_module_is_on_the_map():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\w+\.py", page[page.index("src/elmo/") : page.index("## Two rules")]))
    modules = {path.name for path in (ROOT / "src" / "elmo").rglob("*.py")}
    assert modules - listed - {"__init__.py", "__main__.py"} == set()
    assert listed - modules == set()
