"""elmo.js in Node.js agrees with Python: words, layers, meaning, sentences, predictions."""

import dataclasses
import json
import random
import re
import runpy
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo
from elmo.checkpoint.components import SentenceHead
from elmo.checkpoint.source import MODELS_FOLDER
from elmo.config import ContextConfig, SentenceConfig
from elmo.inference import meaning, substitution
from elmo.inference import sentence as sentence_head
from elmo.kernels import int8
from elmo.kernels import meaning as kernels_meaning
from elmo.serve.page_folder import write_model
from elmo.text import vocabulary
from elmo.text.tokenize import tokenize

NODE = shutil.which("node")
SCRIPT = files("elmo.serve") / "page" / "elmo.js"
WASM = files("elmo.serve") / "page" / "elmo.wasm"
BUILD_SCRIPT = Path(__file__).parents[2] / "packages" / "elmo-js" / "build_wasm.py"
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed; elmo.js runs in it")
ENGLISH = [
    "I went to the bank to deposit money",
    "We sat on the bank of the river, didn't we?",
    "Zyxqua's blorptastic flumbers aren't in any vocabulary …",
    "Dr. O'Neill paid $3.50 for a café crème at 9 a.m.",
]
CHINESE = ["她吃了一个红苹果。", "苹果發布了新款手機", "我用Ｐｙｔｈｏｎ写代码，2024年开始的"]
# Of several languages, with what is hard about each.
PIECES = r"""
    The U.S. Dr. Smith's don’t won't e.g. No. 5 p. 7 Jan. 3 3,000.5 -- --- ... . , ; ! ? ( ) [x] " “ ” ' ’ `` % $5
    https://a.b/c_(d)? www.x.org. me@mail.example.org x-y -z co-op. rock'n'roll l'eau Æther naïve İstanbul straße
    ΑΘΗΝΑ Привет, мир. שלום עולם״ا مرحبا। नमस्ते สวัสดี 안녕하세요 こんにちは カタカナー 中文 苹果，汉字。
    𠮷野家 ９９ Ａｂ 🇩🇪🇫 👍🏽 ½ Ⅻ ٣٤ 1st U.K.-based vs. etc. Mr.
""".split()  # noqa: SIM905
PIECES += ["👩\u200d👩\u200d👧", "e\u0301", "a\u200db", "\u00ad", "x\x1cy", "tab\there", "\u3000"]


def run(tmp_path: Path, request: dict, script=SCRIPT) -> list:
    """Return what elmo.js answers to a request of elmo_driver.mjs."""
    (tmp_path / "requests.json").write_text(json.dumps(request), encoding="utf-8")
    command = [
        NODE,
        Path(__file__).with_name("elmo_driver.mjs"),
        SCRIPT,
        tmp_path / "requests.json",
        tmp_path / "answers.json",
    ]
    subprocess.run(list(map(str, command)), check=True, timeout=600)
    return json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))


def lowest_cosine(first: np.ndarray, second: np.ndarray) -> float:
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return float(((first * second).sum(axis=-1) / lengths).min())


def vectors_of(answer: dict) -> np.ndarray:
    return np.array(answer["data"], dtype=np.float32).reshape(answer["shape"])


def test_the_checked_in_wasm_is_that_of_the_sources():
    content = WASM.read_bytes()
    assert len(content) < 100_000
    source_hash = runpy.run_path(str(BUILD_SCRIPT))["source_hash"]()
    assert source_hash.encode() in content, "run python packages/elmo-js/build_wasm.py, which needs clang"


def test_constants_are_those_of_python():
    script = Path(str(SCRIPT)).read_text(encoding="utf-8")
    numbers = dict(re.findall(r"\b([A-Z][A-Z_]+) = ([\d._]+(?:e-?\d+)?)[,;]", script))
    expected = {}
    for module in (int8, meaning, kernels_meaning, sentence_head, substitution, vocabulary):
        expected |= {name.lstrip("_"): value for name, value in vars(module).items() if name.isupper()}
    shared = numbers.keys() & expected.keys()
    assert shared >= {"LEAST_WEIGHT", "FREQUENCY", "RUN_USAGE", "RARITY_FLOOR", "RANK_SHIFT", "SMALLEST_PEAK", "CUTOFF"}
    for name in shared:
        assert float(numbers[name].replace("_", "")) == pytest.approx(float(expected[name])), name
    pairs = re.findall(r'(\w+): "(\w*)"', re.search(r"const SUFFIXES = \{(.*?)\}", script, re.DOTALL)[1])
    assert pairs == list(substitution._SUFFIXES.items())
    defaults = re.findall(r"(\w+): ([\w.]+)", re.search(r"const CONTEXT_DEFAULTS = \{(.*?)\}", script, re.DOTALL)[1])
    settings = {field.name: field.default for field in dataclasses.fields(ContextConfig)}
    assert {name: json.loads(value) for name, value in defaults} == {name: settings[name] for name, _ in defaults}


@needs_node
def test_words_are_those_of_python(tmp_path):
    chooser = random.Random(0)
    texts = ["", " ", *PIECES]
    while len(texts) < 10_000:
        pieces = chooser.choices(PIECES, k=chooser.randint(1, 8))
        texts.append("".join(piece + chooser.choice(("", " ", " ", "  ", "\n")) for piece in pieces))
    for text, words in zip(texts, run(tmp_path, {"texts": texts}), strict=True):
        expected = [[word.text, len(text[: word.start].encode("utf-16-le")) // 2] for word in tokenize(text)]
        assert words == expected, repr(text)


@needs_node
@pytest.mark.parametrize(("name", "sentences"), [("en-small", ENGLISH), ("zh-small", CHINESE)])
def test_vectors_are_those_of_python(tmp_path, name, sentences):
    marked = "I sat by the [bank] of the river" if name == "en-small" else "她吃了一个红[苹果]"
    word_lists = [["New", "York"]] if name == "en-small" else [["苹果", "好"]]
    elmo = Elmo.from_pretrained(name, precision="int8")
    calls = [
        ["embed", sentences, {"layers": "all"}], ["embed", sentences, {"layers": "meaning"}],
        ["embed", sentences[0], {"layers": [0.5, 0.25, 0.25]}], ["encode", sentences], ["score", sentences[0]],
        ["substitutes", marked, {"topK": 5}], ["similarity", marked, marked],
        ["embed", word_lists, {"layers": "top"}], ["embed", "a", {"layers": 99}],
        ["embed", []], ["embed", ""],
        ["embed", [sentences[0]], {"layers": "meaning", "spans": [[[1, 3]]]}],
    ]  # fmt: skip
    answers = run(tmp_path, {"folder": str(MODELS_FOLDER / name), "calls": calls})
    layers, meanings, mixed, encoded, score, substitutes, same, words, wrong, nothing, empty, phrase = answers
    for sentence, answer in zip(sentences, layers, strict=True):
        assert [word["text"] for word in answer["words"]] == [word.text for word in elmo.tokenize(sentence)]
        assert lowest_cosine(vectors_of(answer), elmo.embed(sentence, layers="all")) > 0.9999
    for sentence, answer in zip(sentences, meanings, strict=True):
        assert lowest_cosine(vectors_of(answer), elmo.embed(sentence, layers="meaning")) > 0.999
    assert lowest_cosine(vectors_of(mixed), elmo.embed(sentences[0], layers=[0.5, 0.25, 0.25])) > 0.9999
    assert lowest_cosine(np.array(encoded), elmo.encode(sentences)) > 0.999
    expected = elmo.score(sentences[0])
    assert score["perplexity"] == pytest.approx(expected.perplexity, rel=0.02)
    assert score["leftToRight"] == pytest.approx(expected.left_to_right.tolist(), abs=0.05)
    best = elmo.substitutes(marked, top_k=5)
    assert [each["word"] for each in substitutes][:2] == [each.word for each in best][:2]
    assert substitutes[0]["logProbability"] == pytest.approx(best[0].log_probability, abs=0.1)
    assert same == pytest.approx(1.0)
    assert lowest_cosine(vectors_of(words[0]), elmo.embed(word_lists, layers="top")[0]) > 0.9999
    assert wrong["error"].startswith("ElmoError: layers is 99")
    assert nothing == []
    assert empty["shape"][0] == 0
    expected_phrase = elmo.embed_spans([word.text for word in elmo.tokenize(sentences[0])], [(1, 3)], layers="meaning")
    assert lowest_cosine(vectors_of(phrase[0]), expected_phrase) > 0.999


@needs_node
def test_a_page_model_has_substitutes_in_meanings_and_a_sentence_head(tmp_path):
    checkpoint = Elmo.from_pretrained("en-small").checkpoint()
    settings = dataclasses.replace(checkpoint.context.config, substitutes=1.0, word=0.3, decay=0.1)
    context = dataclasses.replace(checkpoint.context, config=settings)
    numbers, size = np.random.default_rng(0), checkpoint.config.vector_dim
    shapes = {"layer_weights": (3,), "queries": (2, size), "rarity": (2,), "bias": (64,)}
    shapes["projection"] = (64, 3 * size + settings.dim)
    arrays = {name: numbers.normal(size=shape).astype(np.float16).astype(np.float32) for name, shape in shapes.items()}
    head = SentenceHead(SentenceConfig(dim=64, num_heads=2), arrays)
    elmo = Elmo(dataclasses.replace(checkpoint, context=context, sentence=head), precision="int8")
    write_model(elmo.checkpoint(), tmp_path / "model")
    sentences = ENGLISH[:3]
    calls = [["embed", sentences], ["encode", sentences]]
    meanings, encoded = run(tmp_path, {"folder": str(tmp_path / "model"), "calls": calls})
    for sentence, answer in zip(sentences, meanings, strict=True):
        assert lowest_cosine(vectors_of(answer), elmo.embed(sentence)) > 0.999
    assert lowest_cosine(np.array(encoded), elmo.encode(sentences)) > 0.999


@pytest.mark.slow
@needs_node
@pytest.mark.skipif(not (shutil.which("clang") and shutil.which("wasm-ld")), reason="no clang with wasm-ld is here")
def test_compiling_again_gives_the_same_vectors(tmp_path):
    (tmp_path / "elmo.js").write_bytes(Path(str(SCRIPT)).read_bytes())
    runpy.run_path(str(BUILD_SCRIPT))["build"](tmp_path / "elmo.wasm")
    request = {"folder": str(MODELS_FOLDER / "en-small"), "calls": [["embed", ENGLISH[0], {"layers": "all"}]]}
    ((again,), (before,)) = (run(tmp_path, request, script) for script in (tmp_path / "elmo.js", SCRIPT))
    assert np.allclose(again["data"], before["data"], atol=1e-5)
