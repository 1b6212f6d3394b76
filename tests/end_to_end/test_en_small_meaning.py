"""The default model on sentences of a newcomer: it separates senses and finds similar sentences."""

import runpy
from pathlib import Path

import pytest

from elmo import Elmo
from elmo.checkpoint.folder import check_hashes, content_hash

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src/elmo/models/en-small"
PROGRAM = runpy.run_path(str(ROOT / "benchmarks" / "homonyms.py"))
read_occurrences, embed, score, score_triplets = (
    PROGRAM[name] for name in ("read_occurrences", "embed", "score", "score_triplets")
)
EVERYDAY = ROOT / "benchmarks" / "everyday_meanings.txt"


@pytest.fixture(scope="module")
def model() -> Elmo:
    return Elmo.from_pretrained()


def test_meaning_separates_homonyms(model):
    occurrences = read_occurrences()
    nearest, centroid, _ = score(occurrences, embed(model, occurrences, "meaning"))
    by_layer, _, _ = score(occurrences, embed(model, occurrences, "average"))
    assert nearest >= 91 and centroid >= 95
    assert nearest > by_layer + 15


def test_meaning_separates_everyday_sentences(model):
    occurrences = read_occurrences(EVERYDAY)
    assert len(occurrences) == 30
    assert score_triplets(occurrences, embed(model, occurrences, "meaning")) >= 90


def test_the_money_banks_are_nearer_than_the_river(model):
    account, money, cash, river = (
        "I opened an account at the [bank]",
        "I went to the [bank] to deposit money",
        "I deposited cash in the [bank]",
        "I sat by the [bank] of the river",
    )
    for one, other in ((account, money), (account, cash), (money, cash)):
        assert model.similarity(one, other) > max(model.similarity(each, river) for each in (one, other)) + 0.05


def test_function_words_change_little(model):
    assert model.similarity("the [bank]", "a [bank]") > 0.8


def test_sentences_about_the_same_are_nearer(model):
    for first, same, other in (
        ("How do I reset my password?", "recover a forgotten account login", "How do I bake a cake?"),
        ("The cat sat on the mat.", "A kitten was lying on the rug.", "The parliament passed a law."),
        ("Stocks fell sharply on Monday.", "Share prices dropped at the stock market.", "She plays the violin."),
    ):
        one, two, three = model.encode([first, same, other])
        assert one @ two > one @ three + 0.1


def test_the_packaged_files_are_whole_and_small(model):
    checkpoint = model.checkpoint()
    check_hashes(FOLDER, checkpoint, content_hash(checkpoint.weights))
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 40_000_000
