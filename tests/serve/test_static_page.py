"""`elmo page`: real files behind a plain web server, in a real browser, show what the live page would."""

import functools
import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

import pytest

from elmo import Elmo, InputError
from elmo.serve.static_page import request_key, write_page
from tests.cli.conftest import run  # noqa: F401  # a fixture

EXAMPLES = json.loads((files("elmo.serve") / "page" / "examples.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("language", "name"), [("en", "en-small"), ("zh", "zh-small")])
def test_the_examples_are_right_with_the_packaged_models(language, name):
    model = Elmo.from_pretrained(name)
    for example in EXAMPLES[language]["compare"]:
        first, second, third = example["sentences"]
        word = re.search(r"\[(.+)\]", first)[1]  # twice in one sense, in the first and the third sentence
        third = re.sub(rf"(?i)({re.escape(word)})", r"[\1]", third, count=1)
        assert model.similarity(first, third) > model.similarity(second, third), example["name"]


@pytest.fixture(scope="module")
def site(language_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("host") / "below" / "elmo"
    folder.parent.mkdir()
    write_page(folder, language_folder)
    return folder


def test_the_answers_are_those_of_the_model(site, language_folder):
    places = json.loads((site / "answers/index.json").read_text(encoding="utf-8"))
    sentence = "I sat by the bank of the river"
    key = request_key("substitutes", {"sentence": sentence, "index": 4, "model": "tiny", "top_k": 8})
    answer = json.loads((site / "answers" / places[key]).read_text(encoding="utf-8"))[key]
    found = Elmo.from_pretrained(language_folder).substitutes(sentence, 4, top_k=8)
    assert [each["word"] for each in answer["substitutes"]] == [each.word for each in found]
    prepared = sum(key.startswith("senses ") for key in places)
    assert prepared == len(EXAMPLES["en"]["senses"])


def test_nothing_of_the_server_s_machine_is_in_the_files(site, language_folder):
    for path in site.rglob("*.json"):
        assert str(language_folder.parent) not in path.read_text(encoding="utf-8")


def test_a_page_is_replaced_and_other_folders_are_not(site, language_folder, tmp_path, monkeypatch):
    write_page(site, language_folder)
    assert (site / "index.html").is_file()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"mine is not empty and holds no page; choose a new folder\."):
        write_page(tmp_path / "mine", language_folder)
    with pytest.raises(InputError, match=r"notes.txt is a file; name a folder for the page\."):
        write_page(tmp_path / "mine" / "notes.txt", language_folder)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_a_page_that_fails_leaves_the_old_one(site, language_folder, monkeypatch):
    before = sorted((path, path.stat().st_mtime_ns) for path in site.parent.rglob("*"))
    write_text = Path.write_text

    def fail(path, *arguments, **options):
        if path.name == "senses-0.json":
            raise OSError("the disk is full")
        return write_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="the disk is full"):
        write_page(site, language_folder)
    assert sorted((path, path.stat().st_mtime_ns) for path in site.parent.rglob("*")) == before


def test_a_chinese_model_gets_chinese_examples(language_folder, tmp_path):
    model = Elmo.from_pretrained(language_folder)
    model.save_pretrained(tmp_path / "zh")
    (tmp_path / "zh" / "README.md").write_text("---\nlanguage: zh\n---\n# zh\n\nA model.\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="Most letters of this text are Han"):
        write_page(tmp_path / "site", tmp_path / "zh")
    index = (tmp_path / "site/answers/index.json").read_text(encoding="utf-8")
    assert "山上的杜鹃开了花" in index and "river" not in index


def test_the_command(run, language_folder, tmp_path):  # noqa: F811
    answer = run("page", "--output", tmp_path / "site", "--model", language_folder)
    assert answer.code == 0 and answer.out.startswith(f"Wrote {tmp_path / 'site'}: ")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    answer = run("page", "--output", tmp_path / "other", "--model", language_folder)
    assert answer.message() == f"{tmp_path / 'other'} is not empty and holds no page; choose a new folder."


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture(scope="module")
def static_address(site) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site.parents[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/below/elmo/"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_every_example_works_from_a_plain_web_host(static_address, language_folder):
    from tests.serve.test_page import CHROMIUM, expect, find_faults, move, sync_api

    if CHROMIUM is None:
        pytest.skip("no Chromium is here; install one, or name it in ELMO_CHROMIUM")
    model = Elmo.from_pretrained(language_folder)
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_context(locale="en-US", reduced_motion="reduce").new_page()
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: request.url.startswith(static_address) or faults.append(request.url))
        page.goto(static_address)
        page.wait_for_selector("#pair-cosine")
        assert "Prepared examples" in page.inner_text("#prepared") and "elmo serve" in page.inner_text("#prepared")
        assert page.get_attribute("#sentence-0", "readonly") is not None and not page.is_visible("#add")
        expected = model.similarity(*EXAMPLES["en"]["compare"][0]["sentences"][:2])
        assert float(page.inner_text("#pair-cosine").replace("−", "-")) == pytest.approx(expected, abs=6e-4)
        move(page, "#s-0", 0)
        assert "0.50" in page.inner_text("#s-1-value")
        for number, example in enumerate(EXAMPLES["en"]["compare"]):
            page.select_option("#examples", str(number))
            expect(page.locator("#sentence-1")).to_have_value(
                example["sentences"][1].replace("[", "").replace("]", "")
            )
            page.click("#word-2-0")
            expect(page.locator("#substitutes .side-b .bar-row").first).to_be_visible()
            assert not page.is_visible("#error")
        page.click("#tab-senses")
        for number, example in enumerate(EXAMPLES["en"]["senses"]):
            page.select_option("#map-examples", str(number))
            expect(page.locator(".dot")).to_have_count(len(example["sentences"]))
            expect(page.locator("#map-said")).to_contain_text(f"“{example['name']}”")
        assert find_faults(page) == []
        page.goto(static_address + "#s=something+else&lang=zh")
        expect(page.locator("#error")).to_have_text(
            "本页只包含预先计算的示例；要试自己的文本，请运行 elmo serve。"
        )
        assert faults == []
        chromium.close()
