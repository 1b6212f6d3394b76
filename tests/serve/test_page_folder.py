"""`elmo page`: plain files with which a browser computes what a visitor types, from any web server.

Needs Playwright and a Chromium of the system, or of ELMO_CHROMIUM.
"""

import functools
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

from elmo import Elmo  # noqa: E402
from elmo.cli.run import main  # noqa: E402
from elmo.serve.page_folder import shorten  # noqa: E402
from elmo.serve.served import ServedModel  # noqa: E402
from elmo.serve.settings import PAGE_WORDS  # noqa: E402
from tests.serve.firefox import FIREFOX, open_firefox  # noqa: E402
from tests.serve.test_page import CHROMIUM, find_faults  # noqa: E402

OWN, OTHER = "She kept her savings in a bank near the harbour", "The harbour bank was steep and muddy"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is here")
pytestmark = pytest.mark.slow
SLOW = 120_000  # milliseconds, for busy machines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    output = tmp_path_factory.mktemp("page") / "site"
    assert main(["page", "--output", str(output)]) == 0
    return output


@pytest.fixture(scope="module")
def shortened() -> Elmo:
    """The English model as the page has it."""
    return shorten(ServedModel("en-small", Elmo.from_pretrained()), PAGE_WORDS).elmo


def test_without_rare_words_two_banks_stay_apart(shortened):
    money, river = "I went to the [bank] to deposit money", "I sat by the [bank] of the river"
    cash = "I deposited cash in the [bank]"
    assert shortened.similarity(money, cash) > shortened.similarity(money, river) + 0.05


@pytest.fixture(scope="module")
def address(folder) -> Iterator[str]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def page(address) -> Iterator[sync_api.Page]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(SLOW)
        faults, foreign = [], []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: request.url.startswith(address) or foreign.append(request.url))
        page.goto(address)
        page.wait_for_selector("#pair-cosine")
        yield page
        assert not foreign
        assert not faults
        browser.close()


def test_english_fits_into_15_megabytes(folder):
    config = json.loads((folder / "models" / "en-small" / "config.json").read_text())
    needed = {name: size for name, size in config["files"].items() if name != "sentence.safetensors"}
    assert sum(needed.values()) < 15_000_000  # everything that meaning uses; encode fetches its head when asked
    assert not [path for path in folder.rglob("*.js") if 'from "/' in path.read_text()]


@pytest.mark.parametrize("name", ["notes.txt", "models/mine.txt"])
def test_other_files_and_folders_are_not_replaced(tmp_path, capsys, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    for output in (tmp_path, tmp_path / name):
        assert main(["page", "--output", str(output)]) == 2
        assert name.partition("/")[0] in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "mine"


@needs_chromium
def test_a_visitors_sentence_is_answered_and_then_offline_too(page, shortened):
    cosine = page.locator("#pair-cosine")
    before = cosine.inner_text()
    page.fill("#sentence-0", OWN)
    sync_api.expect(page.locator("#words-0 .word")).to_have_count(len(OWN.split()), timeout=SLOW)
    page.fill("#sentence-1", OTHER)
    sync_api.expect(page.locator("#words-1 .word")).to_have_count(len(OTHER.split()), timeout=SLOW)
    sync_api.expect(cosine).not_to_have_text(before, timeout=SLOW)
    expected = shortened.similarity(OWN.replace("bank", "[bank]"), OTHER.replace("bank", "[bank]"))
    assert float(cosine.inner_text().replace("−", "-")) == pytest.approx(float(expected), abs=2e-3)
    sync_api.expect(page.locator("#substitutes .bar-word").first).to_be_visible(timeout=SLOW)
    page.context.set_offline(True)
    page.reload()
    sync_api.expect(page.locator("#words-0 .word")).to_have_count(len(OWN.split()), timeout=SLOW)


@needs_chromium
def test_the_language_of_a_sentence_selects_the_model(page):
    for _ in range(2):
        page.locator(".entry button").first.click()
    page.fill("#sentence-0", "她吃了一个红苹果")
    sync_api.expect(page.locator("#model")).to_have_value("zh-small", timeout=SLOW)
    sync_api.expect(page.locator("#words-0 .word").last).to_have_text("苹果", timeout=SLOW)


@needs_chromium
@pytest.mark.parametrize("tab", ["meaning", "senses"])
def test_axe_finds_nothing_serious(page, tab):
    page.click(f"#tab-{tab}")
    sync_api.expect(page.locator("#pair-cosine" if tab == "meaning" else "#map svg")).to_be_visible(timeout=SLOW)
    assert find_faults(page) == []


@pytest.mark.skipif(FIREFOX is None, reason="no Firefox is here")
def test_firefox_answers_a_visitors_sentence(address, shortened, tmp_path):
    with open_firefox(tmp_path) as firefox:
        firefox.run("WebDriver:Navigate", {"url": f"{address}#lang=en"})
        firefox.wait_for("document.querySelector('#pair-cosine')?.textContent", SLOW / 1000)
        script = "const field = document.querySelector('#sentence-0'); field.value = arguments[0]; "
        script += "field.dispatchEvent(new Event('input'));"
        firefox.run("WebDriver:ExecuteScript", {"script": script, "args": [OWN]})
        words = "[...document.querySelectorAll('#words-0 .word > span:first-child')].map((word) => word.textContent)"
        firefox.wait_for(f"{words}.join(' ') === {json.dumps(OWN)}", SLOW / 1000)
        cosine = firefox.evaluate("document.querySelector('#pair-cosine').textContent")
    expected = shortened.similarity(OWN.replace("bank", "[bank]"), "I sat by the [bank] of the river")
    assert float(cosine.replace("−", "-")) == pytest.approx(float(expected), abs=2e-3)
