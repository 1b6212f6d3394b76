"""docs/architecture.md names every folder, and only files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "elmo"


def test_every_folder_and_file_of_the_map_exists():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`(\w+(?:/\w+)*\.py|\w+(?:/\w+)*/)`", page) if not name.startswith("tests")}
    assert [name for name in sorted(named) if not (SOURCE / name).exists() and name != "training/"] == []
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {folder for folder in folders if f"\n  {folder}/ " not in page} == set()
