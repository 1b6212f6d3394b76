"""Measure the page of `elmo page` in Chromium with a fresh profile: bytes, seconds, words per second in one thread.

`python benchmarks/page.py [--folder FOLDER]` prints a table and one JSON line. Words per second are from the best run,
for generated sentences of 20 words and for short English ones. Words per CPU second are a lower bound that depends
less on other load.
"""

import argparse
import functools
import http.server
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path

from generated_text import generate_text
from playwright.sync_api import Page, sync_playwright

from elmo.serve.page_folder import write_page
from elmo.serve.served import open_served
from elmo.serve.settings import PAGE_WORDS, Settings

HOMONYMS = Path(__file__).with_name("homonyms.txt")
OWN = "She kept her savings in a bank near the harbour"
RUNS = 4  # the first compiles and fills the word cache
MEASURE = """async ([folder, sentences, layers, runs]) => {
  const { Elmo } = await import(new URL("page/elmo.js", document.baseURI));
  const model = await Elmo.load(folder);
  const seconds = [];
  let count = 0;
  for (let run = 0; run < runs; run++) {
    const start = performance.now();
    const results = await model.embed(sentences, { layers });
    seconds.push((performance.now() - start) / 1000);
    count = results.reduce((sum, { words }) => sum + words.length, 0);
  }
  return [count, Math.min(...seconds.slice(1))];
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="an existing page")
    parser.add_argument("--words", type=int, default=6000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary) / "site"
        if arguments.folder is None:
            write_page(open_served(Settings()), folder, PAGE_WORDS)
        server, sent = serve(folder)
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            results = measure(browser.new_page(), address, sent, arguments.words)
            browser.close()
        server.shutdown()
    for name, value in results.items():
        print(f"{name:40} {value:>14,.2f}")
    print(json.dumps(results))


def serve(folder: Path) -> tuple[http.server.ThreadingHTTPServer, list[int]]:
    """Return a server of a folder, and the list of the sizes of the files it has sent."""
    sent: list[int] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def send_header(self, keyword: str, value: str) -> None:
            if keyword == "Content-Length":
                sent.append(int(value))
            super().send_header(keyword, value)

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, sent


def measure(page: Page, address: str, sent: list[int], num_words: int) -> dict[str, float]:
    """Return the measurements by name."""
    page.set_default_timeout(600_000)
    results: dict[str, float] = {}
    start = time.perf_counter()
    page.goto(f"{address}#lang=en")
    page.wait_for_selector("#pair-cosine")
    results["seconds to the example"] = time.perf_counter() - start
    results["megabytes until the example"] = sum(sent) / 1e6
    page.fill("#sentence-0", OWN)
    page.locator("#words-0 .word").nth(len(OWN.split()) - 1).wait_for()
    results["seconds to the result of another sentence"] = time.perf_counter() - start
    page.wait_for_timeout(2000)
    results["megabytes, English"] = sum(sent) / 1e6
    lines = HOMONYMS.read_text(encoding="utf-8").splitlines()
    texts = {
        "generated": list(generate_text(num_words)),
        "English": [line for line in lines if line and line[0] not in ";#"],
    }
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    for layers, name in (("top", "generated"), ("meaning", "generated"), ("meaning", "English")):
        before = cpu_seconds(session)
        count, seconds = page.evaluate(MEASURE, ["models/en-small/", texts[name], layers, RUNS])
        results[f"words per second, {layers}, {name}"] = count / seconds
        # All runs and the opening of the model: a lower bound.
        results[f"words per CPU second, {layers}, {name}"] = RUNS * count / (cpu_seconds(session) - before)
    return results


def cpu_seconds(session: object) -> float:
    """Return the CPU time of the tab's main thread."""
    metrics = session.send("Performance.getMetrics")["metrics"]  # type: ignore[attr-defined]
    return next(metric["value"] for metric in metrics if metric["name"] == "ThreadTime")


if __name__ == "__main__":
    main()
