"""The page in a real browser: what is typed, pointed at and moved shows the numbers the server gives.

Needs Playwright and a Chromium of the system, or of ELMO_CHROMIUM.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
import uvicorn

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

from axe_playwright_python.sync_playwright import Axe  # noqa: E402

from elmo import Elmo  # noqa: E402
from elmo.analysis import map_senses  # noqa: E402
from elmo.serve.app import create_app  # noqa: E402
from elmo.serve.served import Served, ServedModel  # noqa: E402
from elmo.serve.server import bind  # noqa: E402
from elmo.serve.settings import Settings  # noqa: E402
from elmo.tasks.examples import TagPrediction  # noqa: E402
from elmo.text.tokenize import tokenize  # noqa: E402

expect = sync_api.expect
expect.set_options(timeout=30_000)  # for busy machines
CHROMIUM = os.environ.get("ELMO_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is here; install one, or name it in ELMO_CHROMIUM"),
]
TEXT = "I went to the bank .\nthe river went to the money\nthe bank of the river\n"


HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=1</script>{a}'


class Tagger:
    """A task that finds places by heart."""

    family = "tagging"

    labels = ("B-place", "I-place", "O")

    def read_items(self, items):
        return [tuple(word.text for word in tokenize(item)) for item in items]

    def texts(self, example):
        return (example,)

    def predict_examples(self, examples):
        for words in examples:
            yield TagPrediction(words, tuple("B-place" if word == "Oslo" else "O" for word in words))


@pytest.fixture(scope="module")
def address(language_model) -> Iterator[str]:
    served = Served({"tiny": ServedModel("tiny", language_model)}, {"places": Tagger()})
    yield from run_server(Settings(port=0, max_words=8192), served)


def run_server(settings: Settings, served: Served) -> Iterator[str]:
    listener = bind(settings)
    server = uvicorn.Server(uvicorn.Config(create_app(settings, served), lifespan="on", log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join(20)
    listener.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, address) -> Iterator[sync_api.Page]:
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 860})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.foreign = []
    page.on("request", lambda request: request.url.startswith(address) or page.foreign.append(request.url))
    page.goto(address)
    page.wait_for_selector("#pair-cosine")
    yield page
    assert not page.foreign  # everything came from the server itself
    assert not [fault for fault in faults if not fault.startswith("Failed to load resource")]
    context.close()


def ask(address: str, path: str, **body) -> dict:
    return httpx.post(address + path, json=body, timeout=60).raise_for_status().json()


def shown_cosine(page) -> float:
    return float(page.inner_text("#pair-cosine").replace("−", "-"))


def move(page, slider: str, value: float) -> None:
    page.eval_on_selector(
        slider, "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')) }", value
    )


def find_faults(page) -> list[str]:
    """The serious faults that axe-core finds, with the elements."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{fault['id']}: {[node['html'] for node in fault['nodes']][:3]}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]


BANKS = {"sentence_a": "I went to the [bank] to deposit money", "sentence_b": "I sat by the [bank] of the river"}


def test_the_first_view_compares_two_banks(page, address):
    expected = ask(address, "similarity", **BANKS)
    assert shown_cosine(page) == pytest.approx(expected["cosine"], abs=6e-4)
    label = page.get_attribute("svg.chart", "aria-label")
    for layer, value in enumerate(expected["cosine_by_layer"]):
        assert f"layer {layer} {value:.3f}".replace("-", "−") in label


def test_sliders_mix_as_the_server_does(page, address):
    lengths = page.inner_text("#pair-lengths")
    for layer, value in enumerate((0.2, 0.0, 0.6)):
        move(page, f"#s-{layer}", value)
    assert page.inner_text("#s-2-value") == "0.75"
    expected = ask(address, "similarity", **BANKS, layers=[0.25, 0, 0.75])
    assert shown_cosine(page) == pytest.approx(expected["cosine"], abs=6e-4)
    cosine, distance = shown_cosine(page), float(page.inner_text("#pair-distance"))
    move(page, "#gamma", 3)
    assert shown_cosine(page) == cosine
    assert float(page.inner_text("#pair-distance")) == pytest.approx(3 * distance, abs=0.03)
    assert page.inner_text("#pair-lengths") != lengths
    page.get_by_role("button", name="word alone").click()
    assert shown_cosine(page) == 1.0


def test_hovering_shades_by_similarity(page, address, language_model):
    page.hover("#word-0-7")
    layers = language_model.embed([BANKS["sentence_a"].replace("[", "").replace("]", "")])[0]
    from elmo.inference.layers import cosine

    for word in range(7):
        shown = float(page.get_attribute(f"#word-0-{word}", "data-cosine"))
        assert shown == pytest.approx(float(cosine(layers[7], layers[word])), abs=1e-5)
    page.check("#function-words")
    page.hover("#word-0-7")
    heats = [
        float(page.eval_on_selector(f"#word-{place}", "word => word.style.getPropertyValue('--alike')"))
        for place in ("0-0", "0-1", "0-2", "1-1", "1-7")
    ]
    assert all(0 <= heat <= 1 for heat in heats) and len(set(heats)) > 1
    assert page.inner_text("#word-0-7 .score") == ""
    page.mouse.move(5, 5)
    assert page.get_attribute("#word-0-4", "class") == "word active"  # back to the word A


def test_typing_is_read_by_the_server(page, address):
    page.fill("#sentence-1", "the money went to the bank")
    expect(page.locator("#word-1-1")).to_contain_text("money")
    page.click("#word-1-1")
    page.click("#word-0-4")
    asked = {"sentence_a": "the [money] went to the bank", "sentence_b": BANKS["sentence_a"]}
    expected = ask(address, "similarity", **asked)
    expect(page.locator("#pair")).to_contain_text("A money")
    assert shown_cosine(page) == pytest.approx(expected["cosine"], abs=6e-4)
    page.click("#add")
    page.fill("#sentence-3", "我去了银行 😀 了")
    page.wait_for_selector("#word-3-6")
    assert page.inner_text("#words-3").replace("\n", "").startswith("我")
    assert page.inner_text("#word-3-6 span:first-child") == "了"
    page.get_by_role("button", name="Remove sentence 4").click()
    expect(page.locator("#sentence-3")).to_have_count(0)


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
def test_several_chinese_characters_are_one_word(page, address):
    page.fill("#sentence-0", "我去了银行")
    page.fill("#sentence-1", "河岸上的银行很大")
    expect(page.locator("#word-0-3 span:first-child")).to_have_text("银行")
    page.focus("#word-0-3")
    page.keyboard.press("Escape")
    page.click("#word-0-3")
    page.click("#word-1-4")
    expected = ask(address, "similarity", sentence_a="我去了[银行]", sentence_b="河岸上的[银行]很大")
    expect(page.locator("#pair")).to_contain_text("A 银行")
    assert shown_cosine(page) == pytest.approx(expected["cosine"], abs=6e-4)
    expect(page.locator("#substitutes .side-a")).to_contain_text("mark one word")
    page.focus("#word-1-4")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#word-1-4 span:first-child")).to_have_text("银行很")
    assert page.evaluate("document.activeElement.id") == "word-1-4"
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator("#word-1-4 span:first-child")).to_have_text("银")
    expected = ask(address, "similarity", sentence_a="我去了[银行]", sentence_b="河岸上的[银]行很大")
    assert shown_cosine(page) == pytest.approx(expected["cosine"], abs=6e-4)
    assert "mark=0%2C3%2C5" in page.url


def test_a_phrase_is_marked_with_shift(page, address):
    page.click("#word-1-1")
    page.click("#word-1-3", modifiers=["Shift"])
    expect(page.locator("#pair")).to_contain_text("B sat by the")
    expected = ask(address, "similarity", sentence_a="I sat by the [bank] of the river",
                   sentence_b="I [sat by the] bank of the river")  # fmt: skip
    assert shown_cosine(page) == pytest.approx(expected["cosine"], abs=6e-4)


def test_the_model_is_described_in_one_sentence(page):
    assert page.inner_text("#model-name") == "tiny"
    assert "language model of English" in page.inner_text("#about")
    assert "3 layers of" in page.inner_text("#facts")


def test_function_words_are_excluded_by_default(page):
    page.hover("#word-0-7")
    assert page.inner_text("#word-0-3 .score") == "" and page.inner_text("#word-0-1 .score") != ""
    page.check("#function-words")
    page.hover("#word-0-7")
    assert page.inner_text("#word-0-3 .score") != ""


def test_the_selection_survives_editing(page):
    def marks():
        return dict(
            page.eval_on_selector_all("[data-mark]", "words => words.map(word => [word.dataset.mark, word.id])")
        )

    assert marks() == {"A": "word-0-4", "B": "word-1-4"}
    page.fill("#sentence-0", "yesterday I went to the bank to deposit money")  # the mark moves with its word
    expect(page.locator("#word-0-5")).to_have_attribute("data-mark", "A")
    page.fill("#sentence-0", "yesterday I went to the shop to buy bread")  # another word in its place
    expect(page.locator("#word-0-5")).to_contain_text("shop")
    assert marks() == {"A": "word-0-5", "B": "word-1-4"}
    page.fill("#sentence-0", "")
    expect(page.locator("#word-0-0")).to_have_count(0)
    page.fill("#sentence-0", "we walked slowly to the old shop")
    expect(page.locator("#word-0-6")).to_have_attribute("data-mark", "A")
    assert marks() == {"A": "word-0-6", "B": "word-1-4"}
    assert page.locator("#pair-cosine").count() == 1


def test_the_shown_code_computes_the_shown_numbers(page, address, language_folder, tmp_path, monkeypatch):
    for layer, value in enumerate((0.2, 0.0, 0.6)):
        move(page, f"#s-{layer}", value)
    (tmp_path / "path/to").mkdir(parents=True)
    (tmp_path / "path/to/tiny").symlink_to(language_folder)
    monkeypatch.chdir(tmp_path)
    code = page.inner_text("#code")
    names: dict = {}
    exec(code.replace("model.similarity(", "cosine = model.similarity("), names)
    assert names["cosine"] == pytest.approx(shown_cosine(page), abs=6e-4)
    assert f"# {names['cosine']:.3f}" in code and "model.substitutes(" in code
    page.get_by_role("button", name="curl").click()
    command, _, second = page.inner_text("#code").partition("\n\n")
    answer = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout)
    assert answer["cosine"] == pytest.approx(names["cosine"], abs=1e-4)
    answer = json.loads(subprocess.run(["bash", "-c", second], capture_output=True, check=True).stdout)
    shown = page.locator("#substitutes .side-a .bar-word").all_inner_texts()
    assert [each["word"] for each in answer["substitutes"]] == shown
    page.get_by_role("button", name="Python", exact=True).click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-code")
    expect(page.locator("#status")).to_have_text("Code copied.")
    assert page.evaluate("navigator.clipboard.readText()") == code


def test_the_map_shows_the_senses_of_the_server(page, address, language_model):
    page.click("#tab-senses")
    page.wait_for_selector(".dot")
    assert page.locator(".dot").count() == page.locator("#map-sentences li").count() == 24
    page.click("#map-edit summary")
    lines = page.input_value("#map-text").split("\n")
    expected = map_senses(language_model, lines, num_senses=2)
    assert page.locator("#map-legend strong").all_inner_texts() == [", ".join(words) for words in expected.names]
    shown = page.locator(".dot").evaluate_all("all => all.map(dot => dot.classList[1])")
    assert shown == [f"sense-{sense}" for sense in expected.senses]
    places = "all => all.map(dot => new DOMMatrix(dot.style.transform)).map(({e, f}) => [e, f])"
    page.get_by_role("button", name="word alone").click()
    assert len({tuple(place) for place in page.locator(".dot").evaluate_all(places)}) == 1
    page.get_by_role("button", name="layer 2").click()
    (first, *_), points = page.locator(".dot").evaluate_all(places), expected.points[2]
    reach = max(abs(value) for layer in expected.points.values() for value in layer.flatten().tolist())
    assert first == pytest.approx([210 + 184 / reach * points[0][0], 210 - 184 / reach * points[0][1]], abs=0.3)
    assert "tab=senses" in page.url
    code = page.inner_text("#code")
    assert "analysis.map_senses(model, [" in code and "num_senses=2)" in code and lines[-1] in code
    page.get_by_role("button", name="curl").click()
    command = page.inner_text("#code")
    answer = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout)
    assert [each["sense"] for each in answer["occurrences"]] == list(expected.senses)


def test_lines_of_the_map_are_marked_by_the_first_one(page):
    page.click("#tab-senses")
    page.wait_for_selector(".dot")
    page.click("#map-edit summary")
    page.fill("#map-text", "the [bank] of the river\nBank of money\nno such word, only banks\nmoney in a bank")
    expect(page.locator(".dot")).to_have_count(3)
    assert page.inner_text("#map-note") == "1 line(s) without the word were skipped."
    page.fill("#map-text", "the [bank]\na bank")
    expect(page.locator("#map")).to_contain_text("needs at least three sentences")
    page.fill("#map-text", "")
    expect(page.locator("#map")).to_contain_text("or choose an example")
    page.select_option("#map-examples", "1")
    expect(page.locator(".dot")).to_have_count(12)


def test_empty_results_show_help(page):
    for number in range(3):
        page.fill(f"#sentence-{number}", "")
    expect(page.locator("#empty")).to_be_visible()
    expect(page.locator("#substitutes")).to_have_text("Click a word in a sentence above.")
    page.get_by_role("button", name="Show an example").click()
    expect(page.locator("#pair")).to_contain_text("A bank in sentence 1 and B bank in sentence 2")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("tab", ["meaning", "senses", "tasks"])
def test_axe_finds_nothing_serious(page, address, scheme, tab):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_selector("#substitutes .side-b li")
    page.click(f"#tab-{tab}")
    page.wait_for_selector({"meaning": "#chart svg", "senses": ".dot", "tasks": ".tagged"}[tab])
    assert find_faults(page) == []
    page.click("#language")
    page.wait_for_timeout(200)
    assert find_faults(page) == []


def test_axe_finds_nothing_serious_in_the_page_of_the_api(page, address):
    page.goto(address + "docs")
    page.wait_for_selector("details")
    assert find_faults(page) == []


def test_substitutes_are_those_of_the_server(page, address):
    page.wait_for_selector("#substitutes .side-b li")
    found = ask(address, "substitutes", sentence=BANKS["sentence_b"], top_k=8)
    shown = page.locator("#substitutes .side-b .bar-word").all_inner_texts()
    assert shown == [each["word"] for each in found["substitutes"]]


def test_the_keyboard_is_enough(page):
    page.focus("#word-0-0")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.id") == "word-1-2"
    assert "most similar to" in page.inner_text("#status")
    page.keyboard.press("Escape")
    assert page.locator("[data-mark]").count() == 0
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.press(" ")
    marks = page.eval_on_selector_all("[data-mark]", "words => words.map(word => [word.id, word.dataset.mark])")
    assert sorted(marks) == [["word-0-2", "B"], ["word-1-2", "A"]]
    assert page.get_attribute("#word-1-2", "aria-pressed") == "true"
    assert page.get_attribute("#word-0-3", "aria-label").startswith("the, ")


def test_a_link_shows_the_same_again(page, browser):
    page.fill("#sentence-0", "the money & the river")
    expect(page.locator("#word-0-1")).to_contain_text("money")
    move(page, "#s-0", 0)
    move(page, "#gamma", 2)
    page.click("#word-0-1")
    assert "gamma=2" in page.url
    seen = {name: page.inner_text(name) for name in ("#pair", "#pair-cosine", "#pair-distance", "#s-2-value")}
    second = browser.new_page()
    second.goto(page.url)
    second.wait_for_selector("#pair-cosine")
    assert {name: second.inner_text(name) for name in seen} == seen
    second.close()


def test_chinese_and_themes(page):
    page.click("#language")
    assert page.inner_text("#sentences-title") == "句子" and page.get_attribute("html", "lang") == "zh-CN"
    assert page.locator("[data-text]:visible").evaluate_all("all => all.every(each => each.textContent.trim())")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    assert page.evaluate(paper) == light
    page.click("#theme")
    assert page.evaluate(paper) != light and "深色" in page.inner_text("#theme")
    page.reload()
    page.wait_for_selector("#word-1-3")
    assert page.evaluate(paper) != light and page.inner_text("#sentences-title") == "句子"


def test_errors_are_shown_as_text(page, address):
    page.route("**/embed", lambda route: route.abort())
    page.fill("#sentence-0", "gone")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error") == "The server cannot be reached. Is it still running?"
    page.unroute("**/embed")
    page.fill("#sentence-0", "a " * 9000)
    expect(page.locator("#error")).to_contain_text("words, with two boundaries")
    page.fill("#sentence-0", "back again")
    page.wait_for_selector("#error[hidden]", state="attached")
    page.unroute_all()


def test_the_task_tab_colors_entities(page):
    page.click("#tab-tasks")
    page.fill("#task-form textarea", "I like Oslo 😀 in May")
    page.get_by_role("button", name="Predict").click()
    page.wait_for_selector(".entity")
    assert page.locator(".entity").all_inner_texts() == ["Oslo\nplace"]
    assert page.inner_text(".tagged").replace("\n", "").replace(" ", "") == "IlikeOsloplace😀inMay"


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_of_the_api_lists_every_route(page, address):
    page.goto(address + "docs")
    page.wait_for_selector("details")
    paths = page.locator("summary code").all_inner_texts()
    assert {"/v1/embeddings", "/embed", "/senses", "/tasks/{name}", "/metrics"} <= set(paths)


def test_the_page_asks_for_the_key_once(browser, language_model):
    served = Served({"tiny": ServedModel("tiny", language_model)})
    for address in run_server(Settings(port=0, api_key="secret"), served):
        page = browser.new_page()
        page.goto(address)
        page.fill("#key", "wrong")
        page.click("dialog button")
        expect(page.locator("#key-dialog")).to_have_attribute("open", "")
        page.fill("#key", "secret")
        page.click("dialog button")
        page.wait_for_selector("#pair-cosine")
        page.click("#tab-tasks")
        assert "elmo serve --task tagger" in page.inner_text("#task-answer")
        page.get_by_role("button", name="curl").click()
        assert "curl " in page.inner_text("#code") and "Bearer $ELMO_KEY" in page.inner_text("#code")
        assert "secret" not in page.inner_text("#code")
        page.close()


def test_the_page_is_part_of_the_package():
    from importlib.resources import files

    names = {file.name for file in (files("elmo.serve") / "page").iterdir()}
    written = {path.name for path in (Path(__file__).parents[2] / "src/elmo/serve/page").iterdir()}
    assert names == written and {"index.html", "main.js", "style.css", "docs.html"} <= names


@pytest.fixture(scope="module")
def fused_address(language_model, topics_corpus) -> Iterator[str]:
    from elmo import fuse

    model = fuse(language_model, topics_corpus, dim=4)
    yield from run_server(Settings(port=0), Served({"fused": ServedModel("fused", model)}))


def test_a_model_with_a_context_layer_is_shown_by_meaning(browser, fused_address):
    page, faults = open_page(browser, fused_address)
    page.wait_for_selector("#pair-cosine")
    by_meaning = ask(fused_address, "similarity", **BANKS)["cosine"]
    by_average = ask(fused_address, "similarity", **BANKS, layers="average")["cosine"]
    assert shown_cosine(page) == pytest.approx(by_meaning, abs=6e-4)
    assert page.get_attribute("#by-meaning", "aria-pressed") == "true"
    assert page.is_disabled("#s-0") and "sliders have no effect" in page.inner_text("#mix-hint")
    page.get_by_role("button", name="average", exact=True).click()
    assert shown_cosine(page) == pytest.approx(by_average, abs=6e-4)
    assert page.is_enabled("#s-0")
    page.reload()  # the address says that it is the mix
    page.wait_for_selector("#pair-cosine")
    assert shown_cosine(page) == pytest.approx(by_average, abs=6e-4)
    page.click("#by-meaning")
    assert shown_cosine(page) == pytest.approx(by_meaning, abs=6e-4)
    assert not faults
    page.context.close()


@pytest.fixture(scope="module")
def chinese_address() -> Iterator[str]:
    model = Elmo.from_pretrained("zh-small")
    yield from run_server(Settings(port=0), Served({"zh-small": ServedModel("zh-small", model)}))


def test_a_chinese_model_is_shown_in_chinese_words(browser, chinese_address):
    page, faults = open_page(browser, chinese_address, locale="zh-CN")
    page.wait_for_selector("#pair-cosine")
    assert "语言模型" in page.inner_text("#about")
    examples = json.loads((files("elmo.serve") / "page" / "examples.json").read_text(encoding="utf-8"))
    first, second = examples["zh"]["compare"][0]["sentences"][:2]
    expected = ask(chinese_address, "similarity", sentence_a=first, sentence_b=second)["cosine"]
    expect(page.locator("#pair-cosine")).to_have_text(f"{expected:.3f}".replace("-", "\N{MINUS SIGN}"))
    found = ask(chinese_address, "substitutes", sentence=first, top_k=8)["substitutes"]
    assert all(len(each["word"]) == 2 for each in found)
    words = page.locator("#substitutes .side-a .bar-word")
    expect(words).to_have_text([each["word"] for each in found])
    page.get_by_role("button", name="English").click()
    expect(page.locator("#about")).to_contain_text("language model of Chinese")
    assert not faults
    page.context.close()


def test_a_phrase_has_the_vector_by_meaning_that_the_server_gives_it(browser, fused_address):
    page, faults = open_page(browser, fused_address)
    page.wait_for_selector("#pair-cosine")
    page.fill("#sentence-0", "I sat by the river bank today")
    page.fill("#sentence-1", "the bank lent me money")
    expect(page.locator("#word-0-6 span:first-child")).to_have_text("today")
    expect(page.locator("#word-1-4 span:first-child")).to_have_text("money")
    page.focus("#word-0-4")
    page.keyboard.press("Escape")
    page.click("#word-0-4")
    page.click("#word-1-1")
    page.focus("#word-0-4")
    page.keyboard.press("Shift+ArrowRight")
    marked = {"sentence_a": "I sat by the [river bank] today", "sentence_b": "the [bank] lent me money"}
    expected = ask(fused_address, "similarity", **marked)["cosine"]
    expect(page.locator("#pair-cosine")).to_have_text(f"{expected:.3f}".replace("-", "\N{MINUS SIGN}"))
    assert not faults
    page.context.close()


class HostileTagger(Tagger):
    """A task whose labels are markup."""

    labels = (f"B-{HOSTILE}", "O")

    def predict_examples(self, examples):
        for words in examples:
            yield TagPrediction(words, tuple(f"B-{HOSTILE}" for _ in words))


def open_page(browser, address, *, locale="en-US", **options):
    """A page, and the errors and dialogs that it shows."""
    page = browser.new_context(locale=locale, **options).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.goto(address)
    return page, faults


def test_markup_in_sentences_labels_and_names_stays_text(browser, language_model):
    task_name = HOSTILE.replace("/", "")  # a slash is no part of a name
    served = Served({HOSTILE: ServedModel(HOSTILE, language_model)}, {task_name: HostileTagger()})
    for address in run_server(Settings(port=0), served):
        page, faults = open_page(browser, address)
        page.wait_for_selector("#pair-cosine")
        assert page.inner_text("#model-name") == HOSTILE
        page.fill("#sentence-0", f"the {HOSTILE} bank [ ] </textarea>")
        expect(page.locator("#words-0")).to_contain_text("onerror")
        page.click("#word-0-1")
        page.wait_for_selector("#substitutes .side-b li")
        page.click("#tab-senses")
        page.click("#map-edit summary")
        page.fill("#map-text", "\n".join(f"{HOSTILE} the [bank] {number}" for number in range(3)))
        expect(page.locator(".dot")).to_have_count(3)
        page.click("#tab-tasks")
        page.fill("#task-form textarea", HOSTILE)
        page.get_by_role("button", name="Predict").click()
        expect(page.locator(".entity").first).to_contain_text("onerror")
        assert page.locator("main img, main script, main textarea img").count() == 0
        assert page.title() != "1" and not faults
        page.context.close()


@pytest.mark.parametrize(
    "link",
    [
        "s=a bank&mark=0,-1,1&mark=-1,0",
        "s=a bank&mark=0,0.5,1&mark=0,1e300",
        "s=a bank&mark=0,0,99&mark=7,7",
        "lang=__proto__&tab=constructor&model=toString",
        "s=a bank&weights=NaN,Infinity,-5,1e999&gamma=-Infinity",
        "s=a bank&weights=1,2,3,4,5,6,7,8,9",
        "tab=senses&map=[(((]&map=[(((]&map=[(((]&senses=1e99&layer=__proto__",
        "tab=senses&map=[\\]&map=no&senses=-1",
        "s=%3Cimg src=x onerror=alert(1)%3E&model=%3Cscript%3Ealert(1)%3C/script%3E&lang=%3Csvg onload=1%3E",
        "s=" + "&s=".join(["x"] * 50) + "&mark=0,0" * 50,
        "%ff%fe&s=%ed%a0%80&mark=,,,",
    ],
)
def test_hostile_links_neither_run_code_nor_break_the_page(browser, address, link):
    page, faults = open_page(browser, f"{address}#{link}")
    page.wait_for_selector("body:not(.starting)")
    page.click("#tab-meaning")
    page.fill("#sentence-0", "I went to the bank")
    expect(page.locator("#word-0-4")).to_contain_text("bank")
    assert page.locator(".sentence").count() <= 6
    assert not [fault for fault in faults if not fault.startswith("Failed to load resource")]
    page.context.close()


def test_another_site_can_neither_frame_the_page_nor_post_to_the_server(browser, address):
    """A page of another origin, which a browser shows, tries both."""
    page, _ = open_page(browser, address)
    other = address.replace("127.0.0.1", "localhost")
    page.goto(f"{other}docs")  # another origin of the same server
    page.evaluate("document.body.innerHTML = ''")
    metrics = httpx.get(f"{address}metrics", timeout=60).text
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        page.evaluate(
            "([url, type]) => fetch(url, {method: 'POST', mode: 'no-cors', headers: {'Content-Type': type}, "
            "body: JSON.stringify({sentences: 'a bank'})}).catch(() => null)",
            [f"{address}embed", kind],
        )
    words = [line for line in metrics.splitlines() if line.startswith("elmo_words_total")]
    later = httpx.get(f"{address}metrics", timeout=60).text
    assert [line for line in later.splitlines() if line.startswith("elmo_words_total")] == words
    page.context.close()


@pytest.fixture(scope="module")
def both_address() -> Iterator[str]:
    models = {name: ServedModel(name, Elmo.from_pretrained(name)) for name in ("en-small", "zh-small")}
    yield from run_server(Settings(port=0), Served(models))


@pytest.mark.filterwarnings("ignore::elmo.text.units.UnfamiliarScriptWarning")
def test_the_language_button_chooses_model_and_examples(browser, both_address):
    page, faults = open_page(browser, both_address)
    expect(page.locator("#pair")).to_contain_text("bank")
    assert page.inner_text("#model-name") == "en-small" and "follows the topic" in page.inner_text("#limits")
    page.click("#language")
    expect(page.locator("#pair")).to_contain_text("杜鹃")
    assert page.inner_text("#model-name") == page.input_value("#model") == "zh-small"
    page.click("#language")
    expect(page.locator("#pair")).to_contain_text("bank")
    page.fill("#sentence-0", "我去银行存钱")  # text of the visitor's own stays, and is warned of
    expect(page.locator("#script-note")).to_contain_text("Choose the model zh-small")
    page.click("#language")
    assert page.input_value("#sentence-0") == "我去银行存钱"
    page.select_option("#model", "zh-small")
    expect(page.locator("#script-note")).to_be_hidden()
    assert page.input_value("#sentence-0") == "我去银行存钱" and not faults
    page.context.close()


def test_a_phone_has_no_mouse_hints_and_nothing_is_cut(browser, address):
    page, _ = open_page(browser, address, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    page.wait_for_selector("#pair-cosine")
    text = page.inner_text("main")
    assert "Tap two words" in text and "Shift" not in text and "Point at" not in text
    for tab in ("senses", "tasks", "meaning"):
        page.click(f"#tab-{tab}")
        wide = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.id)"
        assert page.locator("main svg, main pre, main .card, .tabs button").evaluate_all(wide) == []
    page.context.close()
