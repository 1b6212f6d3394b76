"""The documentation site: generated parts are complete, and it builds without warnings or foreign hosts."""

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load_hook(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load_hook("reference")


@pytest.mark.parametrize("part", ["commands", "commands in Chinese"])
def test_every_command_and_option_is_in_the_reference(part):
    from elmo.cli.app import COMMANDS, load_command

    page = reference.write(part)
    assert ("选项" in page) == (part != "commands")
    for name in COMMANDS:
        section = page.split(f"## `elmo {name}`\n")[1].split("\n## ")[0]
        shown = load_command(name).params
        assert section.count("\n| `") == len(shown), name
        for parameter in shown:
            flags = [flag for flag in parameter.opts if flag.startswith("--")]
            assert all(flag in section for flag in flags), f"{name} {parameter.name}"
    assert page.count("<") == page.count("`<"), "a tag that is not code would vanish from the page"


def test_every_setting_is_in_the_reference():
    from elmo.corpus.settings import PrepareSettings
    from elmo.pretrain.settings import PRESETS, OptimizerSettings, TrainSettings
    from elmo.serve.settings import Settings
    from elmo.tasks.settings import FitSettings, TaskOptions
    from elmo.vectors.settings import VectorSettings

    for part, kind, prefix in (
        ("training settings", TrainSettings, ""),
        ("training settings", OptimizerSettings, "optimizer."),
        ("task settings", FitSettings, "fit."),
        ("task settings", TaskOptions, ""),
        ("corpus settings", PrepareSettings, ""),
        ("vector settings", VectorSettings, ""),
    ):
        page = reference.write(part)
        for field in dataclasses.fields(kind):
            assert f"| `{prefix}{field.name}` |" in page, field.name
    assert all(f"| `{name}` |" in reference.write("training settings") for name in PRESETS)
    assert all(
        f"| `{name}` |" in reference.write("server settings")
        for name in (field.name for field in dataclasses.fields(Settings))
    )


def test_comments_and_defaults_come_from_the_code():
    lines = reference.write("training settings").splitlines()
    (row,) = [line for line in lines if line.startswith("| `optimizer.decay`")]
    assert row == "| `optimizer.decay` | `'none' or 'cosine'` | `'none'` | To a tenth, over the whole run |"
    (row,) = [line for line in lines if line.startswith("| `precision`")]
    assert "auto becomes bfloat16" in row  # a comment above the field


def test_every_request_is_in_the_reference():
    pytest.importorskip("fastapi")
    page = reference.write("requests")
    for path in (
        "/v1/embeddings",
        "/embed",
        "/similarity",
        "/substitutes",
        "/score",
        "/tasks/{name}",
    ):
        assert f"## POST `{path}`" in page
    assert "| `layers` |" in page and "`ErrorResponse`" not in page


def test_drawings_are_those_of_the_program():
    drawings = load_hook("drawings")
    for name, draw in drawings.DRAWINGS.items():
        assert (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == draw().to_svg(), (
            f"run python docs/hooks/drawings.py: {name}.svg is not what it draws"
        )


def test_public_functions_are_in_the_python_reference():
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    documented = {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)}
    for package in ("", "tasks", "vectors", "analysis"):
        stub = (ROOT / "src" / "elmo" / package / "__init__.pyi").read_text(encoding="utf-8")
        functions = set(re.findall(r"^from \.\w\S* import (\w+) as", stub, re.MULTILINE))
        missing = {name for name in functions if name[0].islower()} - documented
        assert missing - {"analysis", "tasks", "vectors"} <= ALLOWED, missing


# What results are made of, or what other functions show: described where they are returned.
ALLOWED = {"format_table", "read_corpus"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("material", "mkdocstrings", "mkdocs_static_i18n", "jieba"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} of the extra modern-elmo[docs] is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_the_site_builds_in_both_languages(site):
    assert "Contextual word vectors" in (site / "index.html").read_text(encoding="utf-8")
    assert "上下文词向量" in (site / "zh" / "index.html").read_text(encoding="utf-8")
    for page in ("tutorials/vectors", "tasks", "how-elmo-works", "reference/settings"):
        assert (site / f"{page}.html").is_file() and (site / "zh" / f"{page}.html").is_file()
    assert "<svg" in (site / "how-elmo-works.html").read_text(encoding="utf-8")
    assert 'id="elmo.model.Elmo.embed"' in (site / "reference" / "python.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    foreign = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="?https?:|<link\b[^>]*>')
    for page in site.rglob("*.html"):
        for found in foreign.finditer(page.read_text(encoding="utf-8")):
            is_named = re.search(r'rel="?(canonical|alternate|next|prev)', found[0])  # named, not loaded
            assert is_named or "http" not in found[0], f"{page.name}: {found[0]}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", sheet.read_text(encoding="utf-8")), sheet.name


@pytest.mark.slow
def test_search_finds_pages_that_were_opened_from_disk(site):
    playwright = pytest.importorskip("playwright.sync_api")
    browser_path = Path("/usr/bin/chromium")
    with playwright.sync_playwright() as running:
        try:
            browser = running.chromium.launch(
                executable_path=browser_path if browser_path.exists() else None,
                args=["--no-sandbox", "--allow-file-access-from-files"],
            )
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {error}")
        for page_name, query, expected in (
            ("tutorials/vectors.html", "dropout", "Settings"),
            ("zh/index.html", "困惑度", "打分"),
        ):
            page = browser.new_page()
            page.goto((site / page_name).as_uri())
            page.locator(".md-search__input").fill(query)
            page.keyboard.press("Shift")  # the theme searches when a key is released
            page.wait_for_selector(".md-search-result__item")
            assert expected in page.locator(".md-search-result__list").inner_text()
        browser.close()
