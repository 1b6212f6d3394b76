"""The sections of a page of docs/ and their code blocks."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A headline and what stands below it; the first one has what stands above all headlines."""

    title: str
    text: str

    def blocks(self) -> list[tuple[str, str]]:
        """What each block says it is, and its code."""
        return [(block["info"], textwrap.dedent(block["code"])) for block in BLOCK.finditer(self.text)]


def read_sections(name: str) -> list[Section]:
    parts = re.split(r"^## (.+)$", (DOCS / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [Section("", parts[0]), *map(Section, parts[1::2], parts[2::2])]
