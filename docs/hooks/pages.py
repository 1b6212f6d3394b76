"""The hook of mkdocs.yml: pages of docs/ as they are written for GitHub -> pages of the site.

Marks of tests on code blocks are removed, links out of docs/ lead to the repository, drawings are put into the
page, and `<!-- generated: NAME -->` is replaced by what `reference.py` reads from the code.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import reference

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>(?!\w+:|#|/)[^)\s]+)\)")
GENERATED = re.compile(r"<!-- generated: (?P<name>[\w ]+) -->")
DRAWING = re.compile(r"^!\[[^\]]*\]\((?P<path>pictures/[\w-]+\.svg)\)$", re.MULTILINE)
TABLE_ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")  # GitHub needs \| in the code of a table, the site shows the backslash
_CHINESE = r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
CHINESE_BREAK = re.compile(rf"(?<={_CHINESE})\n *(?={_CHINESE})")  # would be a space in the text
# Pages say how to install from a clone; `published: true` in mkdocs.yml turns that into the command for a release.
INSTALL = re.compile(r"python -m pip install (?:-c constraints\.txt )?(?P<quote>'?)\.(?P<extras>\[[\w,]+\])?(?P=quote)")
CHINESE_SECTION = "中文模型"
OUTPUT_TITLES = {"en": "Output", "zh": "输出"}


def on_config(config: Any) -> Any:
    """Add the pages of docs/zh, about the Chinese model, to the navigation; they have no English counterpart."""
    pages = [f"zh/{name}.md" for name in ("start", "tutorial", "chinese")]
    existing = [page for page in pages if (Path(config.docs_dir) / page).is_file()]
    if existing and not any(CHINESE_SECTION in entry for entry in config.nav):
        config.nav.append({CHINESE_SECTION: existing})
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the Markdown of a page of the site."""
    source = page.file.src_uri
    locale = config.theme["language"]
    markdown = FENCE.sub(lambda match: match["indent"] + _rewrite_fence(match["info"], locale), markdown)
    markdown = GENERATED.sub(lambda match: reference.write(match["name"]), markdown)
    markdown = DRAWING.sub(lambda match: _inline_drawing(Path(config.docs_dir), match["path"]), markdown)
    markdown = TABLE_ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
    markdown = CHINESE_BREAK.sub("", markdown)
    if config.extra["published"]:
        markdown = INSTALL.sub(lambda match: f"pip install 'modern-elmo{match['extras'] or ''}'", markdown)
    repository = config.extra["repository"]
    return LINK.sub(lambda match: f"]({_rewrite_link(match['target'], source, repository)})", markdown)


def _rewrite_fence(info: str, locale: str) -> str:
    """Drop the words after the language, which tell tests what to do with a block; name an output as such."""
    language = info.split(" ", maxsplit=1)[0]
    if language == "output":
        return f'```{{ .text title="{OUTPUT_TITLES.get(locale, OUTPUT_TITLES["en"])}" }}'
    return f"```{language}"


def _rewrite_link(target: str, source: str, repository: str) -> str:
    """Return a link to the repository where a relative one leaves docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
    return target if path.startswith("docs/") else f"{repository}/blob/main/{path}"


def _inline_drawing(docs: Path, path: str) -> str:
    """Return a drawing as part of the page, where it takes the colors of the theme instead of its own."""
    drawing = re.sub(r"<style>.*?</style>\n", "", (docs / path).read_text(encoding="utf-8"), flags=re.DOTALL)
    return f'<div class="drawing">\n{drawing.strip()}\n</div>'
